"""Faults of processes and of the network: each strikes a load, mends what it broke, and says how
the load may end."""

from __future__ import annotations

import re
import signal
import time

from data import Data
from load import LOADED, REFUSED, STOPPED, Command, Ended
from trial import Trial
from ways import ALL, WAYS
from world import World

# The options of a client that gives a silent network up within seconds.
IMPATIENT = "tcp_user_timeout=3000&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"


class Fault:
    """What all faults have in common."""

    name = ""
    # The ways that it strikes.
    loaded_by = WAYS
    # A check of every page and index is worth its time after a crash of the server.
    thoroughly = False

    def data(self, world: World) -> Data:
        """What is loaded."""
        return world.data

    def undisturbed(self) -> Fault:
        """The same load, which nothing strikes."""
        return Fault()

    def target(self, trial: Trial) -> str:
        """The statements that make the target."""
        return trial.way.make(trial.setting.tablespace)

    def run(self, trial: Trial, duration: float) -> None:
        ended = trial.strike(duration)
        self.mend(trial)
        trial.judge(ended, self.allowed(trial))
        if ended.code != LOADED or trial.rng.random() < 0.3:
            trial.resume()
        trial.check(self.thoroughly)

    def prepare(self, trial: Trial) -> None:
        """Changes the setting to what the fault needs."""

    def ready(self, trial: Trial) -> None:
        """What it needs once the target is there."""

    def strike(self, trial: Trial, load: Command) -> None:
        """Strikes a load that runs."""

    def mend(self, trial: Trial) -> None:
        """Puts right what it broke; the load has ended."""

    def allowed(self, trial: Trial) -> set[int]:
        """The exit codes of a load that was struck. A refusal means that it came to nothing yet."""
        return {LOADED, REFUSED}

    def refused(self, trial: Trial, ended: Ended) -> None:
        """A resume was refused, since the server thinks that the first client still lives."""
        time.sleep(0.5)

    def end(self, trial: Trial) -> None:
        """Takes away what the fault itself made."""


class Kill(Fault):
    """kill -9 of the client; some runs are resumed as if from another machine."""

    name = "kill"
    loaded_by = ALL

    def strike(self, trial: Trial, load: Command) -> None:
        load.send(signal.SIGKILL)

    def mend(self, trial: Trial) -> None:
        if trial.rng.random() < 0.2:
            trial.setting.home = trial.folder / "elsewhere"
            trial.setting.home.mkdir(exist_ok=True)
            trial.facts["elsewhere"] = True

    def allowed(self, trial: Trial) -> set[int]:
        return {LOADED, -signal.SIGKILL}


class Interrupt(Fault):
    """SIGINT or SIGTERM, and sometimes a second one that does not wait."""

    name = "interrupt"
    loaded_by = ALL

    def strike(self, trial: Trial, load: Command) -> None:
        number = trial.rng.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM))
        trial.facts["signal"] = number.name
        load.send(number)
        if trial.rng.random() < 0.3:
            load.wait_until(load.age() + trial.rng.random() * 0.3)
            trial.facts["second_signal"] = True
            load.send(number)

    def allowed(self, trial: Trial) -> set[int]:
        # By the signal itself where it came before anybody listened.
        return {LOADED, STOPPED, -signal.SIGINT, -signal.SIGTERM}


class Terminate(Fault):
    """pg_terminate_backend of one of the load's sessions, or of all; perhaps again and again."""

    name = "terminate"
    loaded_by = ALL

    def strike(self, trial: Trial, load: Command) -> None:
        ended = 0
        for _ in range(trial.rng.choice((1, 1, 2, 3))):
            limit = trial.rng.choice(("LIMIT 1", "LIMIT 1", ""))
            # Of those that are there at random, but by our own seed as far as that goes.
            ended += int(trial.setting.server.sql(
                "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
                f" ORDER BY md5(pid || '{trial.rng.random()}') {limit}) AS theirs"
            ))  # fmt: skip
            if not load.wait_until(load.age() + trial.rng.random() * 0.5):
                break
        trial.facts["sessions_ended"] = ended


class Restart(Fault):
    """An immediate stop of the postmaster, and a start: the server recovers as from a crash."""

    name = "restart"
    loaded_by = ALL
    thoroughly = True

    def strike(self, trial: Trial, load: Command) -> None:
        server = trial.setting.server
        server.stop("immediate")
        if trial.rng.random() < 0.5:
            load.wait_until(load.age() + trial.rng.random() * 2)
        server.start()

    def mend(self, trial: Trial) -> None:
        trial.setting.server.revive()


class Cut(Fault):
    """The network between client and server breaks, in four ways."""

    name = "network"
    loaded_by = ALL

    WAYS = ("down", "dropped", "given up", "half-open")

    def prepare(self, trial: Trial) -> None:
        trial.setting.server = trial.world.networked()
        trial.setting.url = trial.setting.server.network_url
        trial.setting.prefix = trial.world.network.prefix()
        self.way = self.WAYS[trial.number % len(self.WAYS)]
        trial.facts["cut"] = self.way
        if self.way == "given up":
            trial.setting.url += f"?{IMPATIENT}&connect_timeout=2"
            trial.setting.options += ["--retry-for", "2"]

    def strike(self, trial: Trial, load: Command) -> None:
        network, rng = trial.world.network, trial.rng
        if self.way == "down":
            network.down()
            load.wait_until(load.age() + 0.2 + 3 * rng.random())
            network.mend()
        elif self.way == "dropped":
            direction = rng.choice(((True, True), (True, False), (False, True)))
            network.drop(0, *direction)
            load.wait_until(load.age() + 0.2 + 3 * rng.random())
            network.mend()
        elif self.way == "given up":
            network.drop()
            load.wait_until(load.age() + 60)
        else:
            network.drop()
            load.send(signal.SIGKILL)
            load.wait_until(load.age() + 10)
            # What the dead client's kernel still sends is never heard.
            network.move()

    def mend(self, trial: Trial) -> None:
        trial.world.network.mend()

    def allowed(self, trial: Trial) -> set[int]:
        return {
            "given up": {LOADED, REFUSED, STOPPED},
            "half-open": {LOADED, -signal.SIGKILL},
        }.get(self.way, {LOADED, REFUSED})

    def refused(self, trial: Trial, ended: Ended) -> None:
        named = re.search(r"pg_terminate_backend\((\d+)\)", ended.said)
        # What the hint says, or, some times, the minute that it speaks of.
        if named and trial.number % 20 != 19:
            trial.setting.server.sql(f"SELECT pg_terminate_backend({named[1]})")
        else:
            trial.facts["waited"] = True
            time.sleep(3)

    def end(self, trial: Trial) -> None:
        if trial.world.network is not None:
            trial.world.network.mend()
