"""What NeMo Curator's ``nmt`` back end asks for: ``POST /translate`` with texts and two languages, a list in, a list
out."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from quitmt.serve.bodies import Body, Texts, read
from quitmt.serve.refusals import answer
from quitmt.serve.server import Exchange, Server
from quitmt.serve.work import Job


class NemoBody(Body):
    texts: Texts
    src_lang: str = Field("auto", min_length=1, max_length=40)
    tgt_lang: str = Field(min_length=1, max_length=40)


async def translate(server: Server, exchange: Exchange) -> web.StreamResponse:
    ask = read(NemoBody, await server.fields(exchange))
    found = await server.translate(exchange, Job(ask.texts, ask.tgt_lang, ask.src_lang))
    return answer({"translations": [one.text for one in found]})
