package warren.workload;

import java.util.Random;

/**
 * One client: a name, a place to start from, at most one session, and the only way to make an operation that lands in the
 * history. Used by one thread at a time (its own, or the command that runs after that thread has ended).
 */
public final class Client {
    /** What an operation does; ends by itself within a bounded time. Any exception means unknown. */
    public interface Call {
        Result call() throws Exception;
    }

    public final String name;
    public final int index;
    public final Random random;
    /** Address that this client's sockets are bound to. */
    public final String address;
    private final Runner run;
    private Node server;
    /** Dropped by {@link #cut} from another thread. */
    private volatile Session session;
    /** Operations of the open session of which it is not known that they have ended. */
    private int doubts;
    private long lastId;

    // Written by the client's thread, read by the runner.
    volatile long outcomes;
    volatile long tailOutcomes;
    volatile long tailOk;

    Client(Runner run, String name, int index, String address, long seed) {
        this.run = run;
        this.name = name;
        this.index = index;
        this.address = address;
        this.random = new Random(seed * 31 + index);
    }

    /** The server of the session now, null before the first. */
    public Node server() {
        return server;
    }

    /** The open session, or null. */
    public Session session() {
        return session;
    }

    /** Opens a session at this server and records it. A session that is still held is dropped. */
    public Session open(Node at, long timeoutMs) throws Exception {
        drop();
        Session opened = run.driver.open(this, at, timeoutMs);
        server = at;
        session = opened;
        doubts = 0;
        run.history.open(name, opened.id(), at.name);
        return opened;
    }

    /**
     * The open session if it is usable; else the same one or a new one at the next living server (one try, which may throw).
     * Clients start at different servers.
     */
    public Session session(long timeoutMs) throws Exception {
        if (session != null && session.usable()) {
            return session;
        }
        int from = server == null ? index - 1 : server.index;
        Node next = next(from);
        if (session != null) {
            // Remembered before the try, so that the next one goes to the next server.
            server = next;
            switch (run.driver.resume(this, session, next, timeoutMs)) {
                case MOVED:
                    moved(next);
                    return session;
                case EXPIRED:
                    expired();
                    break;
                default:
                    break;
            }
        }
        server = next;
        return open(next, timeoutMs);
    }

    /** The first living server after this index, else the first one; only nodes that serve clients. */
    private Node next(int from) {
        Node first = null;
        for (int i = 1; i <= run.nodes.size(); i++) {
            Node node = run.nodes.get(Math.floorMod(from + i, run.nodes.size()));
            if (run.driver.serves(node)) {
                if (node.alive()) {
                    return node;
                }
                first = first == null ? node : first;
            }
        }
        if (first == null) {
            throw new IllegalStateException("no node serves clients");
        }
        return first;
    }

    /** Another server has taken over the open session. */
    private void moved(Node to) {
        server = to;
        run.history.move(name, session.id(), to.name);
    }

    /** The system has ended the open session: nothing of it can happen any more. */
    public void expired() {
        if (session != null) {
            run.history.close(name, session.id(), "expired");
            session.drop();
            session = null;
        }
    }

    /**
     * Closes the open session with the system's words; records it only when the system confirmed, and nothing that was asked in it may still
     * happen: for a checker the end in the history bounds that.
     */
    public boolean close() {
        if (session == null) {
            return true;
        }
        boolean closed = session.usable() && session.close();
        if (closed && (doubts == 0 || run.driver.closeEndsOperations())) {
            run.history.close(name, session.id(), null);
        }
        session.drop();
        session = null;
        return closed;
    }

    /** Lets go of the session without a word: what is under way in it stays open. */
    public void drop() {
        if (session != null) {
            session.drop();
            session = null;
        }
    }

    /** Ends what its thread waits for, from another thread: the operation becomes unknown, the session may go on elsewhere. */
    void cut() {
        Session held = session;
        if (held != null) {
            held.drop();
        }
    }

    /** Makes one operation in the open session: records its begin, does it, records its end. */
    public Result run(Operation op, Call call) {
        Session asked = session;
        if (asked == null) {
            throw new IllegalStateException("client " + name + " has no session for " + op.kind + " " + op.key);
        }
        op.id = run.history.invoke(name, asked.id(), server.name, op);
        lastId = op.id;
        // Until it is known to have ended: an Error of a library leaves it open in the history.
        doubts++;
        Result result;
        try {
            result = call.call();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            result = Result.unknown("interrupted");
        } catch (Exception e) {
            result = Result.unknown(e.toString());
        }
        run.history.done(op.id, result, op.kind.equals("read"));
        // Which failures are definite only target.toml says, and any other may still happen. A definite one that is taken for it does no harm:
        // it is not by the end of its session that it is judged.
        if (result.isOk() && session == asked) {
            doubts--;
        }
        count(result);
        return result;
    }

    /** Id of the operation made last. */
    public long lastId() {
        return lastId;
    }

    private void count(Result result) {
        boolean ok = result.isOk();
        outcomes++;
        if (run.inTail()) {
            if (ok) {
                tailOk++;
            }
            tailOutcomes++;
        }
        run.counted(ok);
    }
}
