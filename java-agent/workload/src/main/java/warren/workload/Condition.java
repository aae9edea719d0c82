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
}
