"""`python -m opmon.simulator`: a simulated vLLM on this machine, to look at or to point a monitor at.

Contains only the reading of options.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from opmon.simulator.scenarios import DAY_MS, SCENARIOS, demo_day
from opmon.simulator.server import Faults, SimulatedServer, running
from opmon.simulator.simulation import Simulation


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until interrupted."""
    options = _parser().parse_args(arguments)
    now_ms = time.time_ns() // 1_000_000
    start_ms = now_ms - (DAY_MS if options.scenario == "demo" else 0)
    scenario = SCENARIOS[options.scenario](options.seed)
    if options.scenario == "demo":
        scenario = demo_day(options.seed, start_ms=start_ms)
    simulation = Simulation(scenario, start_ms=start_ms, speed=options.speed)
    server = SimulatedServer(simulation, faults=Faults(dev_mode=options.dev_mode))
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, options.host, options.port))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m opmon.simulator", description="A simulated vLLM server.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port, 0 for any free one (default: %(default)s)")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="chat", help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the traffic (default: %(default)s)")
    parser.add_argument("--speed", type=float, default=1.0, help="so many times faster (default: %(default)s)")
    parser.add_argument("--dev-mode", action="store_true", help="opens /server_info, as VLLM_SERVER_DEV_MODE=1 does")
    return parser


async def _serve(server: SimulatedServer, host: str, port: int) -> None:
    async with running(server, host=host, port=port) as url:
        print(f"{server.simulation.scenario.name}: {url}/metrics", file=sys.stderr, flush=True)  # noqa: T201 - a command
        await asyncio.Event().wait()


if __name__ == "__main__":
    raise SystemExit(main())
