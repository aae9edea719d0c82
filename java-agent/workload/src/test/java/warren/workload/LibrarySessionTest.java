package warren.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Sessions over a library that may hang, and waits for what is to become so. */
class LibrarySessionTest {
    /** For what must come: a busy machine is no defect, and what never comes is one after ten minutes too. */
    private static final int PATIENCE_S = 600;

    /** A library whose end comes when it is let. */
    private static final class Fake extends LibrarySession {
        final CountDownLatch mayEnd = new CountDownLatch(1);
        final CountDownLatch letGo = new CountDownLatch(1);
        IOException refuses;

        Fake(long closeMs) {
            super("client-1", closeMs);
        }

        Fake() {
            this(PATIENCE_S * 1000L);
        }

        @Override
        protected void end() throws Exception {
            mayEnd.await();
            if (refuses != null) {
                throw refuses;
            }
        }

        @Override
        protected void letGo() {
            letGo.countDown();
        }
    }

    @Test
    void dropEndsACallThatWaitsAndNoOtherIsMade() throws Exception {
        Fake session = new Fake();
        CountDownLatch waits = new CountDownLatch(1);
        boolean[] interrupted = new boolean[2];
        Thread caller = Runner.start("caller", () -> {
            try {
                session.call(() -> {
                    waits.countDown();
                    Thread.sleep(PATIENCE_S * 1000L);
                    return null;
                });
            } catch (Exception e) {
                interrupted[0] = e instanceof InterruptedException;
                interrupted[1] = Thread.currentThread().isInterrupted();
            }
        });
        assertTrue(waits.await(PATIENCE_S, TimeUnit.SECONDS));
        session.drop();
        // Uninterrupted it ends too, much later.
        caller.join();
        assertTrue(interrupted[0]);
        assertFalse(interrupted[1], "the interrupt was for the call alone");
        assertTrue(session.letGo.await(PATIENCE_S, TimeUnit.SECONDS));
        assertFalse(session.usable());
        assertThrows(IOException.class, () -> session.call(() -> null));
    }

    @Test
    void anEndCountsOnlyWhenTheLibrarySaysSoInTime() {
        Fake ends = new Fake();
        ends.mayEnd.countDown();
        assertTrue(ends.close());
        assertFalse(ends.usable());
        Fake fails = new Fake();
        fails.refuses = new IOException("no server");
        fails.mayEnd.countDown();
        assertFalse(fails.close());
        Fake hangs = new Fake(1);
        assertFalse(hangs.close());
        hangs.mayEnd.countDown();
        assertNotEquals(ends.id(), fails.id());
    }

    @Test
    void aConditionIsAskedUntilItHolds() throws Exception {
        int[] asked = new int[1];
        Condition.await(PATIENCE_S, () -> {
            if (asked[0]++ == 0) {
                throw new IOException("not yet");
            }
            return asked[0] > 2;
        });
        assertEquals(3, asked[0]);
        String why = assertThrows(IOException.class, () -> Condition.await(0, () -> {
            throw new IOException("no leader");
        })).getMessage();
        assertTrue(why.contains("after 0 s") && why.contains("no leader"), why);
        assertThrows(IllegalStateException.class, () -> Condition.await(PATIENCE_S, () -> {
            throw new IllegalStateException("not to be waited for");
        }));
    }

    /** Two nodes are asked who leads; `n1+n2` is seen when n1 was asked before a change and n2 after it. */
    @Test
    void whatChangesBetweenTwoLooksIsLookedAtAgain() throws Exception {
        long later = System.nanoTime() + PATIENCE_S * 1_000_000_000L;
        long over = System.nanoTime();
        assertEquals("n1", steady(later, "n1", "n1"));
        assertEquals("n2", steady(later, "n1+n2", "n2", "n2"));
        assertEquals("n1+n2", steady(later, "n1+n2", "n1+n2"), "both lead, now and again");
        assertEquals("n1", steady(over, "n1", "n1"), "it is looked twice however late it is");
        assertNull(steady(over, "n1+n2", "n2"));
    }

    private static String steady(long limit, String... looks) throws Exception {
        int[] next = new int[1];
        String seen = Condition.steady(limit, () -> looks[next[0]++]);
        assertEquals(looks.length, next[0], "no look more than it takes");
        return seen;
    }
}
