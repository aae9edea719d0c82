package warren.runtime;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Keeps a hook from being entered again by what the hook itself does. Entered by every hook of {@link Points} and {@link Dict}.
 *
 * <p>A table of thread ids instead of a ThreadLocal: no class loading, no map per thread, nothing a target's thread factory could
 * break. Only the thread itself puts its id in and takes it out, so a thread never misses its own mark.
 */
public final class Guard {
    private static final int SIZE = 1024;
    private static final int PROBES = 8;
    private static final AtomicLongArray BUSY = new AtomicLongArray(SIZE);

    private Guard() {}

    /** Returns a ticket for {@link #exit}, or -1 when this thread is inside a hook already (or the table is full around it). */
    @SuppressWarnings("deprecation") // threadId() is Java 19+
    public static int enter() {
        long id = Thread.currentThread().getId();
        int start = (int) (id * 0x9E3779B1L) & (SIZE - 1);
        int free = -1;
        for (int i = 0; i < PROBES; i++) {
            int slot = (start + i) & (SIZE - 1);
            long owner = BUSY.get(slot);
            if (owner == id) {
                return -1;
            }
            if (owner == 0 && free < 0) {
                free = slot;
            }
        }
        while (free >= 0) {
            if (BUSY.compareAndSet(free, 0, id)) {
                return free;
            }
            int next = -1;
            for (int i = 0; i < PROBES; i++) {
                int slot = (start + i) & (SIZE - 1);
                if (BUSY.get(slot) == 0) {
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
        BUSY.set(ticket, 0);
    }
}
