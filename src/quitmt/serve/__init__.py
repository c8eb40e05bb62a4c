"""Translations over HTTP, by the APIs that clients already speak. One engine a language pair serves all requests.

| module | what it is for |
|---|---|
| `service` | which recipes are served, by language pair |
| `work` | one request: texts in, translations out, whatever the API |
| `markup`, `detect` | documents with tags, and the language of a text |
| `limits`, `keys` | who may ask for how much |
| `refusals` | what a client is told when it cannot be done |
| `bodies` | what a client sent, read and checked |
| `native`, `libretranslate`, `deepl`, `openai`, `nemo` | one API each |
| `watching`, `metrics` | what is counted, and the line of log a request |
| `description` | the OpenAPI description of all of it |
| `app`, `running` | the pieces put together, and how it starts and stops |
| `page` | the page for people |
"""
