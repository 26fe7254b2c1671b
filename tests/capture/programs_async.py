"""Plain programs with coroutines and asynchronous generators, stepped by hand and by an event loop."""

from __future__ import annotations

import asyncio
import sys
import types


class Ask:
    """Awaits an answer: gives its name to whoever steps the coroutine."""

    def __init__(self, name):
        self.name = name

    def __await__(self):
        answer = yield self.name
        return f"{self.name}={answer}"


class Manager:
    def __init__(self, log, swallows=False):
        self.log = log
        self.swallows = swallows

    async def __aenter__(self):
        self.log.append(await Ask("enter"))
        return self

    async def __aexit__(self, kind, error, traceback):
        self.log.append((await Ask("exit"), kind and kind.__name__, str(error)))
        return self.swallows


class Countdown:
    def __init__(self, count):
        self.count = count

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.count:
            raise StopAsyncIteration
        self.count -= 1
        return await Ask(self.count)


def drive(coroutine):
    """(what the coroutine asked for, its result or error), every question answered by its number."""
    asked = []
    try:
        question = coroutine.send(None)
        while True:
            asked.append(question)
            question = coroutine.send(len(asked))
    except StopIteration as end:
        return asked, end.value
    except Exception as error:
        return asked, type(error).__name__, str(error), type(error.__cause__).__name__


async def double(value):
    return [await Ask(value), await Ask(value + 1)]


async def count_up(limit, log):
    try:
        for i in range(limit):
            got = yield i
            log.append((await Ask(f"up {i}"), got))
    finally:
        log.append("closed")


def awaits_in_awaits():
    async def outer():
        return [await double(1), *[await double(i) for i in (5, 7)]]

    return drive(outer())


def with_statements():
    async def program(swallows, fails):
        log = []
        try:
            async with Manager(log, swallows) as manager:
                log.append(manager is not None)
                if fails:
                    raise ValueError("inside")
        except ValueError as error:
            log.append(f"caught {error}")
        return log

    return [drive(program(swallows, fails)) for swallows in (False, True) for fails in (False, True)]


def loops_over_iterators():
    async def program():
        found = []
        async for i in Countdown(3):
            found.append(i)
        else:
            found.append("else")
        return found, [i async for i in Countdown(2)], {i: 1 async for i in Countdown(2) if i != "0=1"}

    return drive(program())


def generators_and_comprehensions():
    async def program():
        log = []
        found = [i * 2 async for i in count_up(3, log)]
        async for i in count_up(5, log):
            found.append(i)
            if i == 1:
                break
        return found, log

    return drive(program())


def steps_of_a_generator():
    async def program():
        log = []
        steps = count_up(3, log)
        found = [await steps.__anext__(), await steps.asend("sent")]
        try:
            await steps.athrow(KeyError("thrown"))
        except KeyError as error:
            found.append(repr(error))
        await steps.aclose()
        try:
            await steps.__anext__()
        except StopAsyncIteration:
            found.append("over")
        return found, log

    return drive(program())


def closing_a_generator():
    async def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    async def program():
        log = []
        steps = count_up(3, log)
        await steps.__anext__()
        await steps.aclose()
        bad = stubborn()
        await bad.__anext__()
        try:
            await bad.aclose()
        except RuntimeError as error:
            log.append(str(error))
        return log

    return drive(program())


def wrong_awaitables():
    async def awaits(value):
        return await value

    async def loops(value):
        async for _ in value:
            pass

    async def enters(value):
        async with value:
            pass

    class BadAwait:
        def __await__(self):
            return 3

        def __aiter__(self):
            return self

        def __anext__(self):
            return 5

    class BadEnter:
        def __aenter__(self):
            return 1

        __aexit__ = __aenter__

    class NoNext:
        def __aiter__(self):
            return object()

    programs = (
        awaits(1),
        awaits(BadAwait()),
        loops([]),
        loops(NoNext()),
        loops(BadAwait()),
        enters(BadEnter()),
    )
    return [drive(program) for program in programs]


def errors_that_would_end():
    async def stops():
        raise StopIteration(4)

    async def generator(kind):
        yield 1
        raise kind

    async def uses(kind):
        return [i async for i in generator(kind)]

    return drive(stops()), drive(uses(StopIteration)), drive(uses(StopAsyncIteration))


def throwing_into_a_coroutine():
    async def program(log):
        try:
            await Ask("waiting")
        except KeyError as error:
            log.append(repr(error))
            return await Ask("caught")
        finally:
            log.append("left")

    log = []
    one, other = program(log), program(log)
    asked = [one.send(None), one.throw(KeyError("x"))]
    try:
        one.send("answer")
    except StopIteration as end:
        asked.append(end.value)
    other.send(None)
    other.close()
    try:
        other.send(None)
    except RuntimeError as error:
        asked.append(str(error))
    return asked, log


def what_a_coroutine_is():
    coroutine, generator = double(1), count_up(1, [])
    states = [
        coroutine.__name__,
        generator.__qualname__,
        hasattr(coroutine, "__next__"),
        coroutine.cr_running,
        coroutine.cr_await,
    ]
    coroutine.close()
    return states


def coroutine_functions_of_generators():
    @types.coroutine
    def ask_twice():
        first = yield "first"
        second = yield "second"
        return first, second

    class Entered:
        @types.coroutine
        def __aenter__(self):
            return (yield "enter")

        @types.coroutine
        def __aexit__(self, *error):
            yield "exit"

    async def program():
        async with Entered() as value:
            return value, await ask_twice()

    return drive(program())


def in_an_event_loop():
    async def work(name, log):
        for i in range(2):
            await asyncio.sleep(0)
            log.append((name, i))
        return name

    async def program():
        log = []
        names = await asyncio.gather(work("a", log), work("b", log))
        task = asyncio.ensure_future(work("c", log))
        async for i in count_up(0, log):
            log.append(i)
        return names, await task, sorted(log, key=str)

    return asyncio.run(program())


def a_generator_left_to_the_loop():
    log = []

    async def steps():
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            log.append("finalized")

    async def program():
        async for _ in steps():
            break
        await asyncio.sleep(0)

    asyncio.run(program())
    return log, sys.get_asyncgen_hooks().firstiter


PROGRAMS = [
    awaits_in_awaits,
    with_statements,
    loops_over_iterators,
    generators_and_comprehensions,
    steps_of_a_generator,
    closing_a_generator,
    wrong_awaitables,
    errors_that_would_end,
    throwing_into_a_coroutine,
    what_a_coroutine_is,
    coroutine_functions_of_generators,
    in_an_event_loop,
    a_generator_left_to_the_loop,
]
