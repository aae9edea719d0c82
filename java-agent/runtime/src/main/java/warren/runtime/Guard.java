package warren.runtime;

import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Keeps a hook from being entered again by what the hook itself does. Entered by every hook of {@link Points} and {@link Dict}.
 *
 * <p>A table of threads instead of a ThreadLocal: no class loading, no map per thread, nothing a target's thread factory could
 * break. The threads themselves and not their ids: a target may override getId() (ZooKeeper's QuorumPeer does), and two threads with one
 * id would take each other's hooks away. Only the thread itself puts itself in and takes itself out, so it never misses its own mark.
 */
public final class Guard {
    private static final int SIZE = 1024;
    private static final int PROBES = 8;
    private static final AtomicReferenceArray<Thread> BUSY = new AtomicReferenceArray<>(SIZE);

    private Guard() {}

    /** Returns a ticket for {@link #exit}, or -1 when this thread is inside a hook already (or the table is full around it). */
    public static int enter() {
        Thread me = Thread.currentThread();
        int start = System.identityHashCode(me) & (SIZE - 1);
        int free = -1;
        for (int i = 0; i < PROBES; i++) {
            int slot = (start + i) & (SIZE - 1);
            Thread owner = BUSY.get(slot);
            if (owner == me) {
                return -1;
            }
            if (owner == null && free < 0) {
                free = slot;
            }
        }
        while (free >= 0) {
            if (BUSY.compareAndSet(free, null, me)) {
                return free;
            }
            int next = -1;
            for (int i = 0; i < PROBES; i++) {
                int slot = (start + i) & (SIZE - 1);
                if (BUSY.get(slot) == null) {
                    next = slot;
                    break;
                }
            }
            free = next;
        }
        Link.count(Link.ERRORS);
        return -1;
    }

    public static void exit(int ticket) {
        BUSY.set(ticket, null);
    }
}
