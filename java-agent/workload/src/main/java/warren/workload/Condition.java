package warren.workload;

import java.io.IOException;

/** Something that is to become so. It may throw an {@link IOException} while it is not. */
public interface Condition {
    boolean holds() throws Exception;

    /** Waits until it holds; throws when it does not in time, with what it threw last. */
    static void await(int seconds, Condition condition) throws Exception {
        long limit = System.nanoTime() + seconds * 1_000_000_000L;
        while (true) {
            Exception why = null;
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (IOException e) {
                why = e;
            }
            if (System.nanoTime() - limit >= 0) {
                throw new IOException("not so after " + seconds + " s" + (why == null ? "" : ": " + why));
            }
            // Not a park, which an interrupt makes a busy loop.
            Thread.sleep(20);
        }
    }

    /** What is seen. */
    interface Look<T> {
        T look() throws Exception;
    }

    /**
     * Looks until two looks in a row see the same: one that asks several nodes may meet a change in its midst, and see what never was.
     *
     * @return what they saw; null when it was another thing each time until the limit
     */
    static <T> T steady(long limit, Look<T> look) throws Exception {
        T last = look.look();
        while (true) {
            T now = look.look();
            if (now.equals(last)) {
                return now;
            }
            if (System.nanoTime() - limit >= 0) {
                return null;
            }
            last = now;
            Thread.sleep(20);
        }
    }
}
