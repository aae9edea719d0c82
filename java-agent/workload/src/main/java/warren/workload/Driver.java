package warren.workload;

/**
 * What a target's author writes: how to open a session, the steps, one traffic operation, reads, and what can be seen of the
 * system at the end. {@link Runner} calls it and does everything else (commands, threads, history, deadlines, the tail).
 * Every method must end by itself in a bounded time; whatever it throws is caught.
 */
public abstract class Driver {
    /** The port clients connect to, on every node. */
    public abstract int port();

    /** Whether clients open sessions at this node: in a system of several groups some are only its inside. */
    public boolean serves(Node node) {
        return true;
    }

    /** Opens a session at one server. Throws when it cannot be had in time; must leave nothing behind then. */
    public abstract Session open(Client client, Node at, long timeoutMs) throws Exception;

    /** What became of a session whose connection broke. */
    public enum Resumed {
        /** It goes on at the server asked. */
        MOVED,
        /** The system has ended it. */
        EXPIRED,
        /** This system has no such thing: a new one is opened. */
        NO
    }

    /** Tries to go on with a session that is no longer usable at another server. May throw: then it is tried elsewhere. */
    public Resumed resume(Client client, Session session, Node at, long timeoutMs) throws Exception {
        return Resumed.NO;
    }

    /** Before GO, with a session open for every client: what the steps and the traffic need. */
    public void setup(Runner run) throws Exception {
    }

    /** The fixed steps, after GO. Tolerates faults: an operation that fails is an outcome, not an exception. */
    public abstract void steps(Runner run) throws Exception;

    /** One operation of the traffic, made by {@link Client#run}. May throw when no session can be had. */
    public abstract void traffic(Client client) throws Exception;

    /**
     * A few operations before a snapshot, where target.toml has `warm_ops`: they are in no history, so they must leave nothing behind,
     * and throw when one of them was not ok.
     */
    public void warm(Client client) throws Exception {
        throw new UnsupportedOperationException("this workload has no warm-up: take warm_ops out of target.toml");
    }

    /** A few reads in the session that was just opened at a rebooted server. */
    public abstract void probe(Client client) throws Exception;

    /** One write and one read that both must be ok, in the client's session. Throws when they are not. */
    public abstract void serve(Client client) throws Exception;

    /** Whether the confirmed end of a session also ends what was still under way in it. */
    public boolean closeEndsOperations() {
        return false;
    }

    /** Everything to be seen of the healed system, changing nothing that the history or a replica line tells of. @return complete? */
    public abstract boolean observe(Runner run, Observations out, boolean durable) throws Exception;
}
