package warren.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Plan, hold, release, cuts, dictionary hooks, on a live child that is driven line by line. */
class HoldTest {
    private static final int TEST = 2, WRITE = 2, BEFORE = 1, B = 0x7f00000c;
    private static final String HOOK_SEND =
            "hook sample.Puppet$Wire.send kind=msg-send message=arg0.toString() peer=this.to skippable=true";

    static List<String> javas() {
        return Slot.javas();
    }

    private static Slot.Child puppet(String java, Slot slot) throws Exception {
        Slot.Child child = slot.start(java, Slot.testClasses(), "sample.Puppet");
        assertEquals("ready", child.line());
        return child;
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aFirstEverStackIsHeldByPatternAndOnlyItsThread(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            slot.plan(0, 0, WRITE, BEFORE, 1, TEST, 0, "*.Puppet.recover\n*.Puppet.r*");
            assertEquals("written", child.ask("rare"), "phase start: no match");
            slot.state(TEST, 0);
            assertEquals("written", child.ask("write"));
            child.tell("rare");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1), "held");
            assertEquals(1L << 32 | 1, slot.held());
            assertEquals("pong", child.ask("ping"));
            assertEquals("written", child.ask("write"), "others go on");
            assertEquals("interrupted", child.ask("interrupt rare"));
            Thread.sleep(50);
            assertEquals("pong", child.ask("ping"), "an interrupt does not end a hold");
            slot.release(0, 0);
            assertEquals("written with interrupt", child.line(), "the interrupt is there again");
            assertEquals("interrupts 1", child.ask("interrupts"), "and the thread's own interrupt() was not called for it");
            List<Slot.Event> writes = slot.events().stream().filter(e -> e.interval() == 1 << 16).toList();
            assertEquals(List.of(0, 2, 1), writes.stream().map(Slot.Event::flags).toList(), "plain, matched, during");
            assertEquals(slot.events().indexOf(writes.get(1)) + 1, slot.header(Slot.HELD_EVENT));
            assertEquals(3, writes.stream().map(Slot.Event::thread).distinct().count(), "whatever they answer to getId()");
            assertEquals(slot.header(Slot.HELD_THREAD), writes.get(1).thread());
            assertTrue(writes.get(1).thread() < 1000, "and it is the id of the JVM's own: small, and that of a thread dump");
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aFirstEverArrivalOfAnyStackIsHeld(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            slot.state(TEST, 0);
            slot.plan(0, 0, WRITE, BEFORE, 1, TEST, 0, "*.Puppet.recover");
            child.tell("rare");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1), "held at the first time this stack ever was");
            slot.release(1, 0);
            assertEquals("IOException", child.line(), "the action was throw");
            assertEquals(2 | 16, slot.events("recover").get(0).flags());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void whoIsWokenWhileHeldDoesNotSleepAfterwards(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            slot.state(TEST, 0);
            slot.plan(0, 0, WRITE, BEFORE, 1, TEST, 0, "*.Puppet.park");
            child.tell("park");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            assertEquals("unparked", child.ask("unpark park"));
            Thread.sleep(50);
            slot.release(0, 0);
            assertEquals("woken", child.line(), "the permit is the target's, not our waiting's");
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void anExactPointIsHeldAtItsOccurrenceAndInTheNextInterval(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            slot.state(TEST, 0);
            child.ask("write");
            long stack = slot.events("write").get(0).stack();
            slot.plan(0, stack, WRITE, BEFORE, 3, TEST, 0, null);
            assertEquals("written", child.ask("write"));
            child.tell("write");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            assertEquals(3, slot.events("write").get(2).n());
            slot.release(0, 0);
            assertEquals("written", child.line());
            assertEquals("written", child.ask("write"), "claimed once, never again");
            slot.plan(1, stack, WRITE, BEFORE, 2, TEST, 0, null);
            slot.state(TEST, 1);
            assertEquals("written", child.ask("write"));
            assertEquals(1, slot.events("write").get(4).n(), "a new interval counts from one");
            child.tell("write");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 2));
            slot.release(0, 1);
            assertEquals("written", child.line());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void afterSilenceAnyOccurrenceIsAccepted(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            slot.state(TEST, 0);
            child.ask("write");
            slot.plan(0, slot.events("write").get(0).stack(), WRITE, BEFORE, 100, TEST, 0, null);
            assertEquals("written", child.ask("write"));
            slot.acceptLess();
            child.tell("write");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            slot.release(0, 0);
            assertEquals("written", child.line());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void anEntryTellsHowOftenItsPatternCameAndByWhichNumberItWasMet(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**", "role leader *.asLeader")) {
            Slot.Child child = puppet(java, slot);
            slot.state(TEST, 0);
            slot.plan(0, 0, WRITE, BEFORE, 100, TEST, 0, "*.Puppet.write");
            assertEquals("written", child.ask("write"));
            long first = slot.lastArrival();
            assertEquals("written", child.ask("write"));
            assertEquals(2, slot.arrivals());
            assertTrue(slot.lastArrival() > first);
            assertEquals("written", child.ask("rare"), "another stack: not counted");
            assertEquals(2, slot.arrivals());
            child.process.destroyForcibly().waitFor();
            child = puppet(java, slot);
            slot.acceptLess();
            child.tell("write");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            assertEquals(3, slot.header(Slot.HELD_N), "a rebooted node counts on");
            slot.release(0, 0);
            assertEquals("written", child.line());
            // A pattern that asks for a role is silent on a node that serves as something else.
            slot.plan(1, 0, WRITE, BEFORE, 100, TEST, 1, "*.Puppet.write");
            slot.state(TEST, 1);
            assertEquals("written", child.ask("write"));
            assertEquals(0, slot.arrivals());
            assertEquals("led", child.ask("lead"));
            assertEquals(1, slot.arrivals());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void rolesComeFromFramesAndPatternsAskForThem(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "role leader *.asLeader", "role follower *.asFollower")) {
            Slot.Child child = puppet(java, slot);
            slot.state(TEST, 0);
            slot.plan(0, 0, WRITE, BEFORE, 1, TEST, 1, "*.Puppet.write");
            assertEquals("followed", child.ask("follow"));
            assertEquals(2, slot.header(Slot.ROLE));
            assertEquals("written", child.ask("write"), "still a follower");
            child.tell("lead");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            assertEquals(1, slot.header(Slot.ROLE));
            assertEquals(List.of(2, 2, 1), slot.events("write").stream().map(Slot.Event::role).toList());
            slot.release(0, 0);
            assertEquals("led", child.line());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aCutInModeThrowBreaksOldAndNewConnections(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            assertEquals("connected", child.ask("connect"));
            assertEquals("sent", child.ask("send"));
            slot.cut(B, 1);
            assertEquals("SocketException", child.ask("send"));
            assertEquals("SocketException", child.ask("connect"));
            assertEquals("2 of 2 failed, open: false false", child.ask("refused"));
            slot.cut(B, 0);
            assertEquals("sent", child.ask("send"), "healed");
            assertEquals("connected", child.ask("connect"));
            assertEquals("0 of 2 failed, open: true true", child.ask("refused"));
            assertEquals(List.of(0, 16, 0), slot.events("run").stream().filter(e -> e.kind().equals("send")).map(Slot.Event::flags).toList());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aMessageIsLostWholeAndOnlyWhereItCanBe(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**", HOOK_SEND)) {
            Slot.Child child = puppet(java, slot);
            child.ask("connect");
            assertEquals("delivered 1", child.ask("msg"));
            slot.cut(B, 2);
            assertEquals("delivered 1", child.ask("msg"), "skipped");
            assertEquals("sent", child.ask("send"), "a JRE send is never swallowed");
            slot.cut(B, 0);
            slot.state(TEST, 0);
            slot.plan(0, 0, 9, BEFORE, 1, TEST, 0, "");
            child.tell("msg");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            slot.release(2, 0);
            assertEquals("delivered 1", child.line(), "lost by the action of its own hold");
            assertEquals("delivered 2", child.ask("msg"));
            List<Slot.Event> sent = slot.events("send");
            assertEquals(List.of(0, 8, 2 | 8, 1), sent.stream().map(Slot.Event::flags).toList());
            assertEquals("message", sent.get(0).detail());
            assertTrue(sent.get(0).peer().startsWith("127.0.0.12:"), sent.get(0).peer());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aMethodThatReturnsAValueLosesNoMessageAndIsNotSaidTo(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, HOOK_SEND.replace(".send ", ".offer "))) {
            Slot.Child child = puppet(java, slot);
            child.ask("connect");
            slot.cut(B, 2);
            assertEquals("true 1", child.ask("offer"));
            slot.state(TEST, 0);
            slot.plan(0, 0, 9, BEFORE, 1, TEST, 0, "");
            child.tell("offer");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            slot.release(2, 0);
            assertEquals("true 2", child.line());
            assertEquals(List.of(0, 2), slot.events("offer").stream().map(Slot.Event::flags).toList(), "neither was skipped");
            assertTrue(slot.warnings().get(0).contains("sample.Puppet$Wire.offer is skippable, but"), slot.warnings().toString());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aMessageThatIsHeldForACutThrowsWhereItIsSent(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**", HOOK_SEND)) {
            Slot.Child child = puppet(java, slot);
            child.ask("connect");
            slot.state(TEST, 0);
            slot.plan(0, 0, 9, BEFORE, 1, TEST, 0, "");
            child.tell("msg");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1));
            slot.cut(B, 1);
            slot.release(1, 0);
            assertEquals("delivered 1", child.line(), "the method does no I/O of its own");
            assertEquals(List.of(2), slot.events("send").stream().map(Slot.Event::flags).toList());
            assertEquals("SocketException", child.ask("send"));
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void ioInsideAHookMakesNoPoint(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, HOOK_SEND)) {
            Slot.Child child = puppet(java, slot);
            child.ask("connect");
            assertEquals("delivered 1", child.ask("msg"));
            assertEquals(List.of("msg-send before message"), slot.events("send").stream().map(Object::toString).toList());
            assertTrue(slot.events("toString").isEmpty());
            assertEquals(0, slot.header(Slot.ERRORS));
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void belowAMessageTheSocketMakesNoPointButCountsBytes(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "hook sample.Puppet$Wire.flush kind=msg-send place=both message=arg0 peer=this.to",
                "hook sample.Puppet$Wire.receive kind=msg-receive message=ret peer=arg0")) {
            Slot.Child child = puppet(java, slot);
            child.ask("connect");
            assertEquals("flushed", child.ask("flush"));
            assertEquals("answer5", child.ask("receive"));
            assertEquals(List.of("msg-send before abc", "msg-send after abc"),
                    slot.events("flush").stream().map(Object::toString).toList());
            assertEquals(List.of("msg-receive after answer5"), slot.events("receive").stream().map(Object::toString).toList());
            assertEquals(3, slot.header(Slot.BYTES_SENT));
            assertTrue(slot.events().stream().noneMatch(e -> e.kind().equals("send")));
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aStaticMemberTellsWhoseCallItIs(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir,
                "hook sample.Puppet$Wire.receive kind=msg-receive place=before message='call' peer=sample.Puppet$Wire::caller()")) {
            Slot.Child child = puppet(java, slot);
            assertEquals("answer5", child.ask("receive"));
            child.ask("connect");
            assertEquals("answer5", child.ask("receive"));
            assertEquals(List.of("", "127.0.0.11"), slot.events("receive").stream().map(Slot.Event::peer).toList(),
                    "nobody's call, then one over a connection bound to this node");
            assertEquals(0, slot.header(Slot.ERRORS));
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void anOptionalIsWhatItHoldsAndAPeerThatFailsTakesNoMessage(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir,
                "hook sample.Puppet$Wire.reply kind=msg-receive place=after message=ret peer=sample.Puppet$Nobody::caller()")) {
            Slot.Child child = puppet(java, slot);
            assertEquals("yes", child.ask("reply"));
            assertEquals(List.of("msg-receive after yes"), slot.events("reply").stream().map(Object::toString).toList());
            assertEquals(1, slot.header(Slot.ERRORS));
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aMessageIsOnePointWhateverTheCompilerAdds(String java, @TempDir Path dir) throws Exception {
        for (String method : List.of("onNext", "*", "o*t")) {
            Path mine = Files.createDirectories(dir.resolve("m" + method.length()));
            try (Slot slot = new Slot(mine, "hook sample.Puppet$Answers." + method + " kind=msg-receive place=before message=arg0")) {
                Slot.Child child = puppet(java, slot);
                assertEquals("answered", child.ask("answer"));
                assertEquals("answered", child.ask("answer"));
                List<Slot.Event> got = slot.events().stream().filter(e -> e.kind().equals("msg-receive")).toList();
                assertEquals(List.of("onNext 1 yes", "onNext 2 yes"),
                        got.stream().map(e -> e.method() + " " + e.n() + " " + e.detail()).toList(), method);
                assertEquals(List.of(), slot.warnings());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aClassWithoutItsPackageIsRefused(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "hook sample.Puppet$Wire.reply kind=msg-receive peer=arg0::caller()")) {
            Slot.Child child = slot.start(java, Slot.testClasses(), "sample.Puppet");
            String said = "";
            for (String line = child.line(); line != null && !said.contains("::"); line = child.line()) {
                assertNotEquals("ready", line, "the process does not start with such a hook");
                said = line;
            }
            assertTrue(said.contains("before :: stands a class with its package"), said);
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void backgroundStacksAreCountedAlwaysAndRecordedAtPowersOfTwo(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "background *.Puppet.write")) {
            Slot.Child child = puppet(java, slot);
            for (int i = 0; i < 9; i++) {
                child.ask("write");
            }
            assertEquals(List.of(1, 2, 4, 8), slot.events("write").stream().map(Slot.Event::n).toList());
            assertEquals(4, slot.events("write").get(0).flags());
            slot.state(TEST, 0);
            slot.plan(0, slot.events("write").get(0).stack(), WRITE, BEFORE, 3, TEST, 0, null);
            child.ask("write");
            child.ask("write");
            child.tell("write");
            assertTrue(Slot.await(() -> slot.header(Slot.HELD_INDEX) == 1), "a point of a background stack can be met");
            slot.release(0, 0);
            child.line();
            assertEquals(3, slot.events("write").get(6).n(), "and is then recorded");
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aRebootedNodeGoesOnInTheSamePage(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            for (int i = 1; i <= 2; i++) {
                Slot.Child child = puppet(java, slot);
                child.ask("write");
                child.process.destroyForcibly().waitFor();
                assertEquals(i, slot.header(Slot.INCARNATION));
            }
            List<Slot.Event> writes = slot.events("write");
            assertEquals(List.of(1, 2), writes.stream().map(Slot.Event::n).toList());
            assertEquals(List.of(1, 2), writes.stream().map(Slot.Event::incarnation).toList());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void aFullEventArrayIsCountedAndBlocksNothing(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, 4, "include sample.**")) {
            Slot.Child child = puppet(java, slot);
            for (int i = 0; i < 9; i++) {
                assertEquals("written", child.ask("write"));
            }
            assertEquals(4, slot.events().size());
            assertTrue(slot.header(Slot.EVENTS_DROPPED) >= 6);
            assertFalse(slot.header(Slot.ERRORS) > 0);
        }
    }
}
