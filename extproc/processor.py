"""Joins the pure rewriter with what is known about callers: decides every message of every exchange."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

import msgspec
from cachetools import TTLCache
from msgspec.structs import replace

from extproc.batches import Batches
from extproc.catalog.caller import (
    CallerContext,
    CallerKey,
    nameless,
)
from extproc.catalog.model import Tool
from extproc.exchange.messages import (
    Decision,
    Forward,
    Keep,
    Observe,
    PassThrough,
    Replace,
    Reply,
    Request,
    RequestDecision,
    Response,
    ResponseDecision,
)
from extproc.identity import Identity
from extproc.learning import Learning
from extproc.mcp import slices
from extproc.profiles import Profile, Shared, build_profile
from extproc.rewriter import plans, request, response, routes, rpc
from extproc.rewriter.decisions import CallMany, Changed, Doubted, Heavy, Learned, NeedCatalogue, Outdated
from extproc.rewriter.meta_tools import Meta
from extproc.settings import Settings
from extproc.store import Cold, View, Warm
from extproc.store.classes import Classes
from extproc.telemetry import Metrics, Notices, fields, logger, where
from extproc.upstream import Failed, Reason, Unauthorized

OFF_LOOP = 64 * 1024
"""Bodies larger than this are taken apart in a thread, in bytes."""
_T = TypeVar("_T")
_REPLAY_SECONDS = 600.0
_WAITING = 0.7
"""Share of ``server.deadline`` that a side fetch may take; the in-band path is still open after it."""
_Pending = tuple[str, bytes]
# A union written where it is tested would be made anew each time.
_LATER = (CallMany, NeedCatalogue, Heavy)
_OF_THE_SIX = (routes.CallsTool, routes.CallsMeta)

_ByCaller: TypeAlias = routes.Opens | routes.Lists | routes.CallsMeta | routes.CallsTool | routes.CallsDirect


class _Opened(msgspec.Struct, frozen=True):
    """A request of the kinds that are decided by what is known about the caller."""

    route: _ByCaller
    known: request.Known
    profile: Profile


class Processor:
    """One for a process.  ``decide`` never raises because of what a peer sent."""

    def __init__(self, settings: Settings, profiles: Mapping[str, Settings], metrics: Metrics) -> None:
        self._settings = {"": settings, **profiles}
        self._metrics = metrics
        self._notices = Notices(metrics)
        self._identity = Identity(settings.caller.key.get_secret_value())
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="toolsearch")
        # Apart, so that no list waits to be read while others are indexed; one at a time, as two would only
        # take turns, except where most of the time is spent waiting for an embedding service.
        remote = any(each.search.embedder.startswith("openai:") for each in self._settings.values())
        self._builders = ThreadPoolExecutor(2 if remote else 1, thread_name_prefix="toolsearch-build")
        self._profiles: dict[str, Profile] = {}
        self._classes = Classes(settings.catalog.ttl)
        self._pending: TTLCache[_Pending, plans.Plan] = TTLCache(10_000, _REPLAY_SECONDS)
        self._learning = Learning()
        self._batches = Batches()
        self.ready = False

    async def start(self) -> None:
        """Load the embedder and connect the shared store; serving starts after that."""
        shared = Shared(self._executor, self._builders, self._metrics, time.monotonic, self._notices.warn)
        for name, settings in self._settings.items():
            self._profiles[name] = await build_profile(settings, shared)
        profiles = self._profiles
        self._metrics.watch(lambda: [profile.store for profile in profiles.values()])
        self._metrics.watch_targets(lambda: [profile.targets.counters for profile in profiles.values()])
        self.ready = True

    async def close(self) -> None:
        self.ready = False
        for profile in self._profiles.values():
            await profile.aclose()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._builders.shutdown(wait=False, cancel_futures=True)

    def observe(self, head: Observe) -> None:
        """A caller the upstream refused loses its catalogue at once."""
        caller = getattr(head.plan, "caller", None)
        if head.status in (401, 403) and isinstance(caller, CallerContext):
            self._profiles[caller.profile].store.drop(caller.key)

    def at_once(self, message: Request | Response) -> Decision | None:
        """The decision where nothing has to be waited for, else None: then :meth:`decide` has it."""
        if len(message.body) > OFF_LOOP:
            return None
        if isinstance(message, Response):
            return self._watched(message)
        try:
            opened = self._open(message, routes.route(message))
            if not isinstance(opened, _Opened):
                return opened
            if isinstance(opened.known.view, Cold) and (
                opened.profile.store.shares or opened.known.caller.key in self._learning
            ):
                return None
            if _waits_to_search(opened) or self._unsettled(opened):
                return None
            decision = request.decide(opened.route, opened.known)
            if isinstance(decision, _LATER):
                return None
            if not opened.known.caller.named:
                self._warn_of_nameless(opened)
            return self._note(decision, opened)
        except Exception as error:
            logger.error("internal error", extra=fields(error=where(error)))
            return _failure(message)

    async def decide(self, message: Request | Response) -> Decision:
        try:
            if isinstance(message, Request):
                return await self._request(message)
            return await self._response(message)
        except Exception as error:
            logger.error("internal error", extra=fields(error=where(error)))
            return _failure(message)

    # Requests ----------------------------------------------------------------------------------------------

    def _open(self, message: Request, route: routes.Route) -> Decision | _Opened:
        """What needs no look at a catalogue is decided; for the rest, everything that is known at once."""
        profile = self._profiles[message.opening.profile]
        match route:
            case (
                routes.CallsTool()
                | routes.CallsMeta()
                | routes.CallsDirect()
                | routes.Lists()
                | routes.Opens()
            ):
                return self._opened(message, route, profile)
            case routes.Untouched() | routes.EndsSession():
                return PassThrough()
            case routes.Listens(session, revision):
                if not profile.settings.catalog.watch:
                    return PassThrough()
                return request.listen(self._identity.of(profile, message, session, revision))
            case routes.Respelled(body):
                return Forward(body)
            case routes.Refused(reply):
                self._metrics.refusals.labels("request").inc()
                return reply
            case routes.NotifiesCall(name):
                return request.notified(name, profile.settings)
            case routes.Cancels(request_id, session):
                self._batches.cancel(self._identity.of(profile, message, session, ""), request_id)
                return PassThrough()
            case routes.Resumes(session, revision):
                return request.resume(self._identity.of(profile, message, session, revision))

    def _opened(self, message: Request, route: _ByCaller, profile: Profile) -> _Opened:
        caller = self._identity.of(profile, message, route.rpc.session, route.rpc.revision)
        known = request.Known(
            caller,
            profile.store.view(caller.key, searches=not isinstance(route, routes.Lists)),
            profile.settings,
            route=profile.refresher.available,
            agreed=self._agreed,
            checker=profile.checker,
            tally=self._unchecked,
            note=profile.targets.note,
        )
        return _Opened(route, known, profile)

    def _agreed(self, caller: CallerContext, name: str) -> Tool | None:
        return self._classes.tool(caller.place, name, time.monotonic())

    async def _request(self, message: Request) -> Decision:
        began = time.monotonic()
        size = len(message.body)
        opened = self._open(message, await self._run(size, routes.route, message))
        if not isinstance(opened, _Opened):
            return opened
        route, known, profile = opened.route, opened.known, opened.profile
        if _waits_to_search(opened):
            size = OFF_LOOP + 1
        self._warn_of_nameless(opened)
        if self._unsettled(opened):
            known = replace(known, view=await self._settled(profile, known.caller.key))
        if isinstance(known.view, Cold) and known.caller.key is not None:
            await self._learning.settled(known.caller.key)
            known = replace(known, view=await profile.store.recall(known.caller.key))
        decision = await self._run(size, request.decide, route, known)
        if isinstance(decision, NeedCatalogue):
            obtained = await self._obtain(profile, known.caller)
            # Where no credential is seen here, only the gateway knows whether the caller has one.
            if isinstance(obtained, Unauthorized) and known.caller.headers:
                return rpc.relayed(route.rpc, obtained.status, obtained.headers, obtained.body)
            found: View = obtained if isinstance(obtained, Warm) else known.view
            known = replace(known, view=found, fetched=True)
            decision = await self._run(size, request.decide, route, known)
        if isinstance(decision, Heavy):
            known = replace(known, aside=True)
            decision = await self._run(OFF_LOOP + 1, request.decide, route, known)
        match decision:
            case CallMany():
                return await self._batches.run(decision, profile, known.caller, began)
            case NeedCatalogue() | Heavy():
                raise AssertionError("asked twice for the same")
        return self._note(decision, opened)

    def _unsettled(self, opened: _Opened) -> bool:
        """Whether the client listed a moment ago and what its list brings is not known yet."""
        if not isinstance(opened.route, _OF_THE_SIX):
            return False
        key = opened.known.caller.key
        return key in self._learning or opened.profile.refresher.rereads(key)

    async def _settled(self, profile: Profile, key: CallerKey | None) -> View:
        if key is not None:
            deadline = profile.settings.server.deadline
            await self._learning.settled(key)
            await profile.refresher.settled(key, deadline * _WAITING if deadline else None)
        return profile.store.view(key, searches=True)

    async def _obtain(self, profile: Profile, caller: CallerContext) -> Warm | Unauthorized | Failed:
        """The fetch goes on for the next request when it takes longer than this one can wait."""
        deadline = profile.settings.server.deadline
        try:
            async with asyncio.timeout(deadline * _WAITING if deadline else None):
                return await profile.refresher.obtain(caller)
        except TimeoutError:
            return Failed(Reason.TIMEOUT)

    def _note(self, decision: RequestDecision | Doubted, opened: _Opened) -> Decision:
        """What a decision means for the caller's catalogue and for later answers."""
        profile, caller = opened.profile, opened.known.caller
        if isinstance(decision, PassThrough):
            return decision
        if isinstance(decision, Doubted):
            self._learning.mark_stale(profile, caller)
            profile.refresher.used(caller)
            return decision.reply
        plan = decision.plan if isinstance(decision, Forward) else None
        match plan:
            case None if isinstance(opened.route, routes.Lists):
                profile.refresher.listed(caller)
            case None | plans.Watch():
                profile.refresher.used(caller)
            case plans.List() | plans.Search() | plans.Describe() | plans.AskAgain():
                if not isinstance(plan, plans.List):
                    self._metrics.cold_searches.inc()
                if caller.session is not None:
                    self._pending[caller.session, plan.rpc.upstream_id] = plan
        return decision

    # Responses ---------------------------------------------------------------------------------------------

    def _watched(self, message: Response) -> ResponseDecision | None:
        """The decision on a call's answer, for which nothing has to be waited; most need no look inside."""
        plan = message.plan
        if not isinstance(plan, plans.Watch):
            return None
        if not message.event and not plan.may_err(message.body):
            return Keep()
        profile = self._profiles[plan.caller.profile]
        decision = response.decide(message, plan, profile.settings)
        assert not isinstance(decision, Learned)
        return self._concluded(decision, plan, profile)

    def _concluded(
        self, decision: Keep | Replace | Changed | Outdated, plan: plans.Plan, profile: Profile
    ) -> ResponseDecision:
        """What an answer that holds no list means for the caller's catalogue."""
        match decision:
            case Keep() | Replace():
                return decision
        self._learning.mark_stale(profile, plan.caller)
        profile.refresher.used(plan.caller)
        return Replace(decision.body) if isinstance(decision, Outdated) else Keep()

    async def _response(self, message: Response) -> ResponseDecision:
        plan = message.plan
        assert isinstance(plan, plans.Plan)
        if isinstance(plan, plans.Replay) and plan.caller.session is not None:
            plan = self._replayed(plan, plan.caller.session, message.body)
        profile = self._profiles[plan.caller.profile]
        decision = await self._run(len(message.body), response.decide, message, plan, profile.settings)
        match decision:
            case Learned(page, listing):
                self._pending.pop((listing.caller.session or "", listing.rpc.upstream_id), None)
                catalogue = await self._run(len(message.body), page.catalogue)
                profile.targets.learned(listing.caller, catalogue)
                if plan.caller.key is None:
                    self._classes.learn(plan.caller.place, catalogue, time.monotonic())
                caller = listing.caller
                if not len(catalogue) and caller.session is None and not listing.rpc.modern:
                    # A server with sessions may list nothing outside of one: no reason to forget a list.
                    self._learning.mark_stale(profile, caller)
                    caller = replace(caller, key=None)
                if isinstance(listing, plans.List):
                    self._learning.learn(profile, caller, catalogue, page.ttl)
                    return response.finish_list(listing, decision.result, catalogue, profile.settings)
                warm = await profile.store.learn(caller.key, catalogue, page.ttl, asked=caller.asked)
                if not catalogue.complete:
                    profile.refresher.complete(listing.caller)
                note = profile.targets.note(listing.caller, warm.catalogue)
                size = OFF_LOOP + 1 if profile.waits_to_search else 0
                return await self._run(size, response.finish, decision, warm, profile.settings, note)
            case _:
                if isinstance(plan, plans.Guide):
                    profile.refresher.warm_up(self._identity.opened(profile, plan, message))
                return self._concluded(decision, plan, profile)

    def _replayed(self, plan: plans.Replay, session: str, body: bytes) -> plans.Plan:
        """What the replayed answer was once asked for, if that is still remembered."""
        try:
            upstream_id = slices.members(body).get("id", b"")
        except ValueError:
            return plan
        return self._pending.get((session, upstream_id), plan)

    # Shared ------------------------------------------------------------------------------------------------

    def _warn_of_nameless(self, opened: _Opened) -> None:
        """A caller without a name learns its list again in every session: seldom what was meant."""
        caller = opened.known.caller
        if not caller.named and opened.profile.settings.caller.anonymous != "shared":
            self._notices.warn("caller.attributes", nameless(caller.dialect))

    def _unchecked(self, reason: str) -> None:
        self._metrics.warnings.labels(f"calls.validate_arguments:{reason}").inc()

    async def _run(self, size: int, work: Callable[..., _T], *arguments: object) -> _T:
        """Small work at once, large work in a thread."""
        if size <= OFF_LOOP:
            return work(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)


def _waits_to_search(opened: _Opened) -> bool:
    route = opened.route
    return (
        opened.profile.waits_to_search and isinstance(route, routes.CallsMeta) and route.tool is Meta.SEARCH
    )


def _failure(message: Request | Response) -> Decision:
    """What is due when our own code broke: nothing raw, nothing telling."""
    if isinstance(message, Response):
        return Replace(message.plan.failure())
    try:
        envelope = slices.members(message.body)
    except ValueError:
        return PassThrough()
    if slices.string(envelope.get("method")) in routes.TOUCHED and "id" in envelope:
        return Reply(rpc.error_body(envelope["id"], rpc.INTERNAL_ERROR, "Internal error"))
    return PassThrough()
