"""Translations over HTTP, by the APIs that clients already speak. One engine a language pair serves all requests.

| module | what it is for |
|---|---|
| `service` | which recipes are served, by language pair |
| `work` | one request: texts in, translations out, whatever the API |
| `markup`, `tags`, `spans` | documents with tags: which text is translated, and where the tags go |
| `limits`, `keys` | who may ask for how much |
| `refusals` | what a client is told when it cannot be done |
| `bodies` | what a client sent, read and checked |
| `native`, `libretranslate`, `deepl`, `openai`, `nemo` | one API each |
| `server`, `metrics` | what all APIs share: the log, and what is counted |
| `description` | the OpenAPI description of all of it |
| `connections` | how many clients, and how long each is waited for |
| `app`, `running` | the pieces put together, and how it starts and stops |
| `page` | the page for people |
"""
