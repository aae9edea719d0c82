package warren.workload;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicLong;

/** history.jsonl: what clients did (docs/formats.md section 6). Written by {@link Client}; drivers do not see it. */
final class History {
    private final Lines lines;
    private final AtomicLong ids = new AtomicLong();
    /** Operations are passed over: those that warm the system up all succeed and leave nothing behind. */
    volatile boolean passOver;

    History(String path) throws IOException {
        lines = new Lines(path);
    }

    void phase(String name) {
        lines.write("ev", "phase", "phase", name, "t_ns", System.nanoTime());
    }

    void open(String client, String session, String server) {
        lines.write("ev", "open", "client", client, "session", session, "server", server, "t_ns", System.nanoTime());
    }

    void move(String client, String session, String server) {
        lines.write("ev", "move", "client", client, "session", session, "server", server, "t_ns", System.nanoTime());
    }

    void close(String client, String session, String outcome) {
        lines.write("ev", "close", "client", client, "session", session, "t_ns", System.nanoTime(), "outcome", outcome);
    }

    long invoke(String client, String session, String server, Operation op) {
        long id = ids.incrementAndGet();
        if (passOver) {
            return id;
        }
        lines.write("ev", "invoke", "id", id, "client", client, "session", session, "server", server, "op", op.kind, "key",
                op.key, "value", op.value, "expect", op.expect == Long.MIN_VALUE ? null : op.expect, "retry_of",
                op.retryOf == 0 ? null : op.retryOf, "t_ns", System.nanoTime());
        return id;
    }

    void done(long id, Result result, boolean read) {
        if (passOver) {
            return;
        }
        Object value = result.value == null && read && result.isOk() ? Lines.NULL : result.value;
        lines.write("ev", "done", "id", id, "t_ns", System.nanoTime(), "outcome", result.outcome, "value", value, "version",
                result.version == Long.MIN_VALUE ? null : result.version, "zxid", result.zxid, "mzxid",
                result.mzxid == 0 ? null : result.mzxid, "error", result.error);
    }
}
