package warren.runtime;

import java.util.concurrent.locks.LockSupport;

/**
 * The I/O point: counted, matched against the plan, recorded, held. Called by the hook entries in {@link Files}, {@link Net} and
 * {@link Dict}, always inside the {@link Guard}. It never throws into the target: its answer says what the entry has to do.
 */
final class Points {
    private static final int DURING = 1;
    private static final int MATCHED = 2;
    private static final int BACKGROUND = 4;
    private static final int SKIPPED = 8;
    private static final int THROWN = 16;
    private static final long PARK_NS = 200_000;
    private static final long STALL_PARK_NS = 1_000_000;
    private static final long CANCELLED = 0xffff_ffffL;

    /** False until premain is done: the agent's own start-up makes no points. */
    static volatile boolean on;

    private Points() {}

    /** Starts (or, in tests, stops) making points. */
    static void enable(boolean value) {
        Threads.start();
        on = value;
    }

    /**
     * One point.
     *
     * @param peerIp address of the other end for sends, else 0: decides about cuts
     * @param throwable true if a cut in mode `throw` is to throw here (JRE sends; a message's own JRE send below it throws)
     * @param skippable true if the caller can skip a whole message
     * @return {@link Kinds#GO_ON}, {@link Kinds#THROW} or {@link Kinds#LOSE}
     */
    static int point(int kind, int place, Stack stack, int peerIp, int peer, int detail, long bytes, boolean throwable,
            boolean skippable) {
        long time = System.nanoTime();
        Mem run = Link.run;
        Mem node = Link.node;
        // The page alone has the role: of one beside it, two threads could write the one in this order and the other in that.
        int nodeRole = (int) node.get(Link.ROLE);
        if (stack.role != 0 && stack.role != nodeRole) {
            nodeRole = stack.role;
            node.put(Link.ROLE, nodeRole);
        }
        long state = run.get(Link.STATE);
        int interval = interval(state);
        long occurrence = Occurrences.arrive(stack, kind, place, interval);
        if ((int) (occurrence >>> 32) != interval) {
            state = run.get(Link.STATE);
        }
        int phase = (int) (state >>> 32);
        int current = (int) state;
        // Whatever may fail comes before a claim: who has won one must hold.
        long thread = Threads.id(Thread.currentThread());
        Plan plan = Plan.current();
        long met = plan.match(time, stack, kind, place, phase, current, occurrence, nodeRole);
        int index = (int) met;
        boolean won = met >= 0 && claim(index, (int) node.get(16));
        int flags = won ? MATCHED : during(current) ? DURING : 0;
        if (stack.background) {
            flags |= BACKGROUND;
            int n = (int) occurrence;
            if (!won && (n & (n - 1)) != 0) {
                return Net.cut(peerIp, throwable, skippable);
            }
        }
        long what = kind | place << 8 | phase << 16 | (long) nodeRole << 24 | (long) (Link.incarnation & 255) << 40
                | (thread & 0xffff) << 48;
        int action = won ? Kinds.GO_ON : Net.cut(peerIp, throwable, skippable);
        int event = -1;
        try {
            if (occurrence == 0) {
                // Which arrival it is nobody knows: an event would look like one of the start.
                node.add(Link.EVENTS_DROPPED, 1);
            } else {
                event = record(time, stack.id, occurrence, what | (long) (flags | done(action)) << 32, peer, detail, bytes);
            }
        } catch (Throwable t) {
            // A stack at its end, say. Who won a claim holds all the same: the executor waits for this thread, and no other can win it.
            if (!won) {
                throw t;
            }
            Link.count(Link.ERRORS);
        }
        if (won) {
            action = hold(index, met >>> 32, time, thread, event);
            if (!canDo(action, kind, throwable, skippable)) {
                action = Kinds.GO_ON;
            }
            stall(index, plan.stall(index));
            if (action == Kinds.GO_ON) {
                action = Net.cut(peerIp, throwable, skippable);
            }
            if (event >= 0) {
                node.put(Link.EVENTS + 64 * event + 32, what | (long) (flags | done(action)) << 32);
            }
        }
        return action;
    }

    /**
     * A method that takes a message may only put it into a queue, and declare no exception: one thrown there is nothing that a broken link could do.
     * The cut is in the page by now, and breaks the message's own send.
     */
    private static boolean canDo(int action, int kind, boolean throwable, boolean skippable) {
        boolean message = kind == Kinds.MSG_SEND || kind == Kinds.MSG_RECEIVE;
        return action == Kinds.THROW && (throwable || !message) || action == Kinds.LOSE && skippable;
    }

    private static int interval(long state) {
        return ((int) (state >>> 32) >= Kinds.PHASE_TEST ? 1 << 16 : 0) | (int) state & 0xffff;
    }

    private static int done(int action) {
        return action == Kinds.THROW ? THROWN : action == Kinds.LOSE ? SKIPPED : 0;
    }

    /** Claims only rise: one thread of the cluster wins a fault, all others go on. */
    private static boolean claim(int index, int nodeIndex) {
        long held = Link.run.get(Link.HELD);
        return (held & 0xffff_ffffL) < index + 1
                && Link.run.cas(Link.HELD, held, (long) (nodeIndex + 1) << 32 | index + 1);
    }

    private static boolean during(int current) {
        long held = Link.run.get(Link.HELD);
        return (held & 0xffff_ffffL) == current + 1 && held >>> 32 != CANCELLED;
    }

    /** Index of the record, or -1 when the array is full. */
    private static int record(long time, long stack, long occurrence, long what, int peer, int detail, long bytes) {
        Mem node = Link.node;
        long index = node.add(Link.EVENTS_NEXT, 1);
        if (index >= Link.eventsCap) {
            node.add(Link.EVENTS_DROPPED, 1);
            return -1;
        }
        int at = Link.EVENTS + 64 * (int) index;
        node.put(at + 8, time);
        node.put(at + 16, stack);
        node.put(at + 24, occurrence);
        node.put(at + 32, what);
        node.put(at + 40, (long) detail << 32 | peer);
        node.put(at + 48, bytes);
        node.put(at, index + 1);
        return (int) index;
    }

    /**
     * Waits until the fault is released or the process dies under us. An interrupt does not end it: the flag is cleared, so that park
     * parks, and set again on leaving ({@link #giveBack}).
     *
     * @return what the release says to do here
     */
    private static int hold(int index, long n, long time, long thread, int event) {
        Mem node = Link.node;
        node.put(Link.HELD_THREAD, thread);
        node.put(Link.HELD_TIME, time);
        node.put(Link.HELD_EVENT, event + 1);
        node.put(Link.HELD_N, n);
        node.put(Link.HELD_INDEX, index + 1); // last: the executor reads the others when it sees it
        Thread me = Thread.currentThread();
        if (Threads.virtual(me)) {
            node.put(Link.VIRTUAL_HELD, 1);
        }
        boolean interrupted = false;
        long release = Link.run.get(Link.RELEASE);
        while ((release & 0xffff_ffffL) < index + 1) {
            interrupted |= Thread.interrupted();
            LockSupport.parkNanos(PARK_NS);
            release = Link.run.get(Link.RELEASE);
        }
        giveBack(me, interrupted);
        return (release & 0xffff_ffffL) == index + 1 ? (int) (release >>> 32) : Kinds.GO_ON;
    }

    /**
     * A stall is done, for the others, as soon as its thread holds; here that thread goes on holding: for so long, where asked no longer than until the
     * fault after it is done, and never beyond the test phase. The time counts from when it was done. A claim of which no fault came (a constraint)
     * stalls nothing.
     *
     * @param how see {@link Plan#stall}
     */
    private static void stall(int index, long how) {
        long length = (how & 0xffff_ffffL) * 1_000_000;
        boolean untilNext = (how >>> 32 & 1) != 0;
        long since = System.nanoTime();
        boolean parked = false;
        boolean interrupted = false;
        while (System.nanoTime() - since < length) {
            long state = Link.run.get(Link.STATE);
            int done = (int) state;
            if ((int) (state >>> 32) > Kinds.PHASE_TEST || done <= index || untilNext && done > index + 1) {
                break;
            }
            interrupted |= Thread.interrupted();
            LockSupport.parkNanos(STALL_PARK_NS);
            parked = true;
        }
        if (parked) {
            giveBack(Thread.currentThread(), interrupted);
        }
    }

    /**
     * What our waiting took from the thread. Whether it took a permit to park cannot be told (park says not why it returned), so there
     * is one in any case: one too many is a park of the target's that returns for no reason, which every caller must expect; one too few
     * is a thread that is never woken.
     */
    private static void giveBack(Thread me, boolean interrupted) {
        if (interrupted) {
            Threads.interrupt(me);
        }
        LockSupport.unpark(me);
    }
}
