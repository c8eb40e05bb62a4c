"""The API of NeMo Curator's ``nmt`` back end: ``POST /translate`` with texts and two languages; lists in and out.

The path is LibreTranslate's, so ``libretranslate`` passes requests with ``texts`` on to this module.
"""

from __future__ import annotations

from aiohttp import web

from quitmt.serve.bodies import Body, Language, Texts, read
from quitmt.serve.refusals import answer
from quitmt.serve.server import Exchange, Server
from quitmt.serve.work import AUTO, Job


class NemoBody(Body):
    texts: Texts
    src_lang: Language = AUTO
    tgt_lang: Language


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    request = read(NemoBody, await server.fields(exchange))
    translated = await server.translate(exchange, Job(request.texts, request.tgt_lang, request.src_lang))
    return answer({"translations": [one.text for one in translated]})
