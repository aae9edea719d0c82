package warren.workload;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A session over a system's own client library, whose calls may wait for longer than a session lives: an operation is one call, which
 * {@link #drop} interrupts, and the library's own end is made aside and waited for no longer than {@link #CLOSE_MS}. One whose waits are
 * all bounded without the library needs only {@link NamedSession}.
 */
public abstract class LibrarySession extends NamedSession {
    private static final AtomicLong COUNT = new AtomicLong();
    private static final long CLOSE_MS = 3000;

    private final long closeMs;
    private volatile Thread busy;

    protected LibrarySession(String client) {
        this(client, CLOSE_MS);
    }

    /** Waited for so long by {@link #close}: tests must not depend on how fast the machine is. */
    LibrarySession(String client, long closeMs) {
        super(client + "/" + COUNT.incrementAndGet());
        this.closeMs = closeMs;
    }

    /** What one operation does. */
    public interface Body<T> {
        T run() throws Exception;
    }

    /** Ends the session with the system's words. On a thread aside, so it may wait. */
    protected abstract void end() throws Exception;

    /** Lets go of what this process holds, without a word to the system. On a thread aside, so it may wait. */
    protected abstract void letGo() throws Exception;

    /** Does it so that {@link #drop} can end it. */
    public final <T> T call(Body<T> body) throws Exception {
        busy = Thread.currentThread();
        try {
            if (!usable) {
                throw new IOException("the session was dropped");
            }
            return body.run();
        } finally {
            busy = null;
            if (!usable) {
                // The interrupt was for this call, and may have come too late for it.
                Thread.interrupted();
            }
        }
    }

    @Override
    public final boolean close() {
        usable = false;
        boolean[] closed = new boolean[1];
        Thread closer = aside("close-" + id(), () -> {
            end();
            closed[0] = true;
        });
        try {
            closer.join(closeMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return closed[0] && !closer.isAlive();
    }

    @Override
    public final void drop() {
        usable = false;
        Thread waiting = busy;
        if (waiting != null && waiting != Thread.currentThread()) {
            waiting.interrupt();
        }
        aside("drop-" + id(), this::letGo);
    }

    private interface Step {
        void run() throws Exception;
    }

    /** Work whose failure tells nothing. */
    private static Thread aside(String name, Step step) {
        return Runner.start(name, () -> {
            try {
                step.run();
            } catch (Exception e) {
                // the session is over either way
            }
        });
    }
}
