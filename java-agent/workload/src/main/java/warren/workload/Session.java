package warren.workload;

/** One open session of a system, made by {@link Driver#open}. All calls on it must end by themselves within a bounded time. */
public interface Session {
    /** Its name in the history, never used twice in a run. */
    String id();

    /** False once nothing more can come of it. */
    boolean usable();

    /** Ends it with the system's own words. @return true when the system confirmed the end */
    boolean close();

    /** Drops what this process holds of it, without a word to the system. May be called from another thread. */
    void drop();
}
