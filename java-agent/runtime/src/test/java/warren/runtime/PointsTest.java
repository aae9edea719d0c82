package warren.runtime;

import static org.junit.jupiter.api.Assertions.*;

import java.io.File;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Many threads on one page: numbers are given once, one claim wins, the guard tells threads apart. */
class PointsTest {
    private static final int THREADS = 8;
    private static final int EACH = 500;

    @BeforeEach
    void pages(@TempDir Path dir) throws Exception {
        int cap = 8192;
        page(dir, "run.page", 4096, new long[] {Link.RUN_MAGIC, Link.LAYOUT, (long) Kinds.PHASE_TEST << 32, 0, 0, 65536});
        page(dir, "node-a.page", (1 << 20) + 64 * cap + (1 << 16), new long[] {Link.NODE_MAGIC, Link.LAYOUT, 0, cap, 1 << 16});
        page(dir, "cov.map", 65536, new long[] {0});
        Files.writeString(dir.resolve("agent.conf"), "version 1\nnode a 127.0.0.11\n");
        File conf = dir.resolve("agent.conf").toFile();
        Link.start(conf, Conf.read(conf), "a", 7);
        // The plan is kept in a field: no test goes on with that of the one before, nor takes its own generation for that one's.
        for (long generation : new long[] {1000, 1002}) {
            Link.node.put(Link.PLAN_GEN, generation);
            Plan.current();
        }
    }

    private static void page(Path dir, String name, int size, long[] words) throws Exception {
        try (RandomAccessFile f = new RandomAccessFile(dir.resolve(name).toFile(), "rw")) {
            f.setLength(size);
            for (long word : words) {
                f.writeLong(Long.reverseBytes(word));
            }
        }
    }

    private static Stack stack() {
        return new Stack(42, new String[] {"org.x.A.f"}, true, false, 0, false, false);
    }

    private static void all(Runnable work) throws Exception {
        List<Thread> threads = new ArrayList<>();
        List<Throwable> errors = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            Thread t = new Thread(work);
            t.setUncaughtExceptionHandler((x, e) -> {
                synchronized (errors) {
                    errors.add(e);
                }
            });
            threads.add(t);
            t.start();
        }
        for (Thread t : threads) {
            t.join();
        }
        assertEquals(List.of(), errors);
    }

    @Test
    void everyArrivalGetsItsOwnNumberAndRecord() throws Exception {
        Stack stack = stack();
        all(() -> {
            for (int i = 0; i < EACH; i++) {
                Points.point(Kinds.WRITE, Kinds.BEFORE, stack, 0, 0, 0, 1, false, false);
            }
        });
        Set<Long> seen = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < THREADS * EACH; i++) {
            int at = Link.EVENTS + 64 * i;
            assertEquals(i + 1, Link.node.get(at), "committed");
            seen.add(Link.node.get(at + 24));
        }
        assertEquals(THREADS * EACH, seen.size());
        assertTrue(seen.contains(1L << 48 | THREADS * EACH), "the last number, in the interval of phase test");
    }

    @Test
    void oneThreadOfAllThatMatchIsHeld() throws Exception {
        Mem n = Link.node;
        // a pattern entry that takes any arrival of this stack, whatever its number
        long[] words = {0, 2, 42, 0, 0, 1, Kinds.PHASE_TEST, 0, 0, 0, 1};
        for (int i = 0; i < words.length; i++) {
            n.put(Link.PLAN + 8 * i, words[i]);
        }
        n.put(Link.PLAN_COUNT, 1);
        n.put(Link.PLAN_GEN, 2);
        Stack stack = stack();
        AtomicInteger through = new AtomicInteger();
        CountDownLatch rest = new CountDownLatch(THREADS - 1);
        Thread control = new Thread(() -> {
            try {
                rest.await();
                assertEquals(THREADS - 1, through.get());
                Link.run.put(Link.RELEASE, 1);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        control.start();
        all(() -> {
            Points.point(Kinds.WRITE, Kinds.BEFORE, stack, 0, 0, 0, 1, false, false);
            through.incrementAndGet();
            rest.countDown();
        });
        control.join();
        assertEquals(THREADS, through.get());
        assertEquals(1L << 32 | 1, Link.run.get(Link.HELD));
        assertEquals(1, n.get(Link.HELD_INDEX));
        assertTrue(n.get(Link.HELD_N) >= 1 && n.get(Link.HELD_N) <= THREADS, "the winner's own number");
    }

    @Test
    void anEntryCountsItsArrivalsFromManyThreadsAndPerInterval() throws Exception {
        Mem n = Link.node;
        long[] words = {0, 2, 42, 0, 0, 1 << 20, Kinds.PHASE_TEST, 0, 0, 0, 0, 0, 0};
        for (int i = 0; i < words.length; i++) {
            n.put(Link.PLAN + 8 * i, words[i]);
        }
        n.put(Link.PLAN_COUNT, 1);
        n.put(Link.PLAN_GEN, 6);
        Stack stack = stack();
        long before = System.nanoTime();
        all(() -> {
            for (int i = 0; i < EACH; i++) {
                Points.point(Kinds.WRITE, Kinds.BEFORE, stack, 0, 0, 0, 1, false, false);
            }
        });
        assertEquals(1L << 48 | THREADS * EACH, n.get(Link.PLAN + 88), "in the interval of phase test");
        assertTrue(n.get(Link.PLAN + 96) >= before);
        n.put(Link.PLAN, 1); // the same entry for the next fault
        n.put(Link.PLAN_GEN, 8);
        Link.run.put(Link.STATE, (long) Kinds.PHASE_TEST << 32 | 1);
        Points.point(Kinds.WRITE, Kinds.BEFORE, stack, 0, 0, 0, 1, false, false);
        assertEquals((1L << 16 | 1) << 32 | 1, n.get(Link.PLAN + 88), "a new interval counts from one");
    }

    /** Two threads that show two roles may write theirs in the one order and see them in the other. */
    @Test
    void thePageAndTheEventsHaveOneRole() {
        Stack leads = new Stack(43, new String[] {"org.x.A.lead"}, true, false, 1, false, false);
        for (int before : new int[] {0, 2, 1}) {
            Link.node.put(Link.ROLE, before); // as another thread left it
            long at = Link.EVENTS + 64 * Link.node.get(Link.EVENTS_NEXT);
            Points.point(Kinds.WRITE, Kinds.BEFORE, leads, 0, 0, 0, 1, false, false);
            assertEquals(1, Link.node.get(Link.ROLE), "after " + before);
            Points.point(Kinds.WRITE, Kinds.BEFORE, stack(), 0, 0, 0, 1, false, false);
            assertEquals(1, Link.node.get((int) at + 32) >>> 24 & 255);
            assertEquals(1, Link.node.get((int) at + 64 + 32) >>> 24 & 255, "a stack without one");
        }
        Link.node.put(Link.ROLE, 2);
        Points.point(Kinds.WRITE, Kinds.BEFORE, stack(), 0, 0, 0, 1, false, false);
        assertEquals(2, Link.node.get(Link.EVENTS + 6 * 64 + 32) >>> 24 & 255, "that of the page");
    }

    @Test
    void aCancelledFaultHoldsNobody() {
        Link.run.put(Link.HELD, 0xffff_ffffL << 32 | 1);
        long[] words = {0, 2, 42, 0, 0, 1, Kinds.PHASE_TEST, 0, 0, 0, 1};
        for (int i = 0; i < words.length; i++) {
            Link.node.put(Link.PLAN + 8 * i, words[i]);
        }
        Link.node.put(Link.PLAN_COUNT, 1);
        Link.node.put(Link.PLAN_GEN, 4);
        assertEquals(Kinds.GO_ON, Points.point(Kinds.WRITE, Kinds.BEFORE, stack(), 0, 0, 0, 1, false, false));
        assertEquals(0, Link.node.get(Link.HELD_INDEX));
        assertEquals(0, Link.node.get(Link.EVENTS + 32) >>> 32 & 3, "neither matched nor during");
    }

    /** ms and what ends it, whether it is to be let go at once, and whether it is. */
    @Test
    void aStallHoldsForItsTimeUntilTheNextFaultOrTheEndOfTheTest() throws Exception {
        long ms = 60_000;
        long next = 1L << 32;
        long test = (long) Kinds.PHASE_TEST << 32;
        assertTrue(stalled(40, test | 1) >= 40_000_000, "its time, and nothing ends it");
        assertTrue(stalled(40, test | 2) >= 40_000_000, "the fault after it does not end one of a fixed time");
        // What lets these go is there already: each would hold for a minute else.
        Duration soon = Duration.ofSeconds(30);
        assertTimeoutPreemptively(soon, () -> stalled(next | ms, test | 2), "the fault after it is done");
        assertTimeoutPreemptively(soon, () -> stalled(ms, (long) (Kinds.PHASE_TEST + 1) << 32 | 1), "the test is over");
        assertTimeoutPreemptively(soon, () -> stalled(ms, test), "a claim of which no fault came");
        Thread.currentThread().interrupt();
        assertTrue(stalled(next | 20, test | 1) >= 20_000_000);
        assertTrue(Thread.interrupted(), "an interrupt neither ends it nor is lost");
    }

    /** Whatever goes wrong in between (here the record lies outside the page), the executor hears who won, and the thread holds. */
    @Test
    void aClaimThatIsWonIsAnnounced() throws Exception {
        Link.eventsCap = 1 << 20;
        Link.node.put(Link.EVENTS_NEXT, 1 << 19);
        assertTrue(stalled(0, (long) Kinds.PHASE_TEST << 32 | 1) > 0);
        assertEquals(1, Link.node.get(Link.HELD_INDEX));
        assertEquals(1, Link.node.get(Link.HELD_N));
        assertEquals(0, Link.node.get(Link.HELD_EVENT), "no event");
        assertEquals(1, Link.node.get(Link.ERRORS));
    }

    /** How long a point held of which the executor made fault 0, a stall; ns. STATE is as it finds it when it is released. */
    private static long stalled(long how, long state) {
        Mem n = Link.node;
        Link.run.put(Link.STATE, (long) Kinds.PHASE_TEST << 32);
        Link.run.put(Link.HELD, 0);
        Link.run.put(Link.RELEASE, 0);
        long[] words = {0, 2, 42, 0, 0, 1, Kinds.PHASE_TEST, 0, 0, 0, 1, 0, 0, how};
        for (int i = 0; i < words.length; i++) {
            n.put(Link.PLAN + 8 * i, words[i]);
        }
        n.put(Link.PLAN_COUNT, 1);
        n.put(Link.PLAN_GEN, n.get(Link.PLAN_GEN) + 2);
        n.put(Link.HELD_INDEX, 0);
        Thread control = new Thread(() -> {
            while (n.get(Link.HELD_INDEX) != 1) {
                Thread.onSpinWait();
            }
            Link.run.put(Link.STATE, state);
            Link.run.put(Link.RELEASE, 1);
        });
        control.setDaemon(true);
        control.start();
        long before = System.nanoTime();
        assertEquals(Kinds.GO_ON, Points.point(Kinds.WRITE, Kinds.BEFORE, stack(), 0, 0, 0, 1, false, false));
        return System.nanoTime() - before;
    }

    @Test
    void theGuardIsPerThread() throws Exception {
        int mine = Guard.enter();
        assertTrue(mine >= 0);
        assertEquals(-1, Guard.enter(), "entered already");
        all(() -> {
            for (int i = 0; i < EACH; i++) {
                int ticket = Guard.enter();
                assertTrue(ticket >= 0);
                assertEquals(-1, Guard.enter());
                Guard.exit(ticket);
            }
        });
        assertEquals(-1, Guard.enter());
        Guard.exit(mine);
        mine = Guard.enter();
        assertTrue(mine >= 0);
        Guard.exit(mine);
    }

    /** ZooKeeper's QuorumPeer answers getId() with its server's number, which is another thread's id. */
    @Test
    void theGuardDoesNotAskAThreadForItsId() throws Exception {
        int mine = Guard.enter();
        for (long said : new long[] {Thread.currentThread().getId(), 0}) {
            List<Boolean> entered = new ArrayList<>();
            Thread t = new Thread(() -> {
                int ticket = Guard.enter();
                entered.add(ticket >= 0);
                entered.add(Guard.enter() >= 0);
                if (ticket >= 0) {
                    Guard.exit(ticket);
                }
            }) {
                @Override
                public long getId() {
                    return said;
                }
            };
            t.start();
            t.join();
            assertEquals(List.of(true, false), entered, "once, with the id " + said);
        }
        Guard.exit(mine);
    }

    @Test
    void aHalfWrittenPlanIsNotTaken() {
        Link.node.put(Link.PLAN_COUNT, 1);
        Link.node.put(Link.PLAN_GEN, 5);
        Plan plan = assertTimeoutPreemptively(Duration.ofSeconds(30), Plan::current, "no endless wait for a writer that died");
        assertEquals(-1, plan.match(System.nanoTime(), stack(), Kinds.WRITE, Kinds.BEFORE, Kinds.PHASE_TEST, 0, 1L << 48 | 1, 0));
    }
}
