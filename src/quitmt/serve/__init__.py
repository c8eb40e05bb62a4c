"""Translations over HTTP, through the APIs that clients already speak. One engine per language pair serves all
requests.

| module | purpose |
|---|---|
| `service` | the recipes that are served, by language pair |
| `work` | one request of any API: texts in, translations out |
| `markup`, `tags`, `spans` | documents with tags: find the text, translate it, put the tags back |
| `limits`, `keys` | limits of requests, and access |
| `refusals` | errors that clients receive |
| `bodies` | reading and checking request bodies |
| `native`, `libretranslate` (with NeMo Curator's), `deepl`, `openai` | the APIs |
| `server`, `metrics` | the parts that all APIs share; the log and the metrics |
| `description` | the OpenAPI description |
| `connections` | limits and timeouts of TCP connections |
| `app`, `running` | routes and the web page; start and shutdown |
"""
