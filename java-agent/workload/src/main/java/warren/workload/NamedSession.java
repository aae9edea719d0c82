package warren.workload;

/**
 * A session with a name that is usable until it is dropped or found broken. Its end is that of {@link #drop}, which no system confirms
 * but by closing what it had: one whose system is told, and may not answer, has its own {@link #close}.
 */
public abstract class NamedSession implements Session {
    /** False once nothing more can come of it. */
    protected volatile boolean usable = true;
    private final String id;

    protected NamedSession(String id) {
        this.id = id;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public boolean usable() {
        return usable;
    }

    @Override
    public boolean close() {
        drop();
        return true;
    }
}
