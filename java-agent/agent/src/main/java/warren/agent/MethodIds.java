package warren.agent;

/**
 * Methods by the JVM's own ids, without initialising their class: the Java half of {@code native/park.c}, which says why and how.
 *
 * <p>Used by {@link Park} alone, by one thread; {@link #done} leaves the JVM as it was. Finds only methods of classes that are linked.
 */
final class MethodIds implements AutoCloseable {
    private MethodIds() {}

    /** Loads the library at this absolute path. Null where it cannot be loaded, or the JVM has no such interface. */
    static MethodIds load(String library) {
        try {
            System.load(library);
            return open() ? new MethodIds() : null;
        } catch (LinkageError | RuntimeException e) {
            return null;
        }
    }

    private static native boolean open();

    /** Ids of the methods of this name that have bytecode; null where the class is not linked. */
    static native long[] of(Class<?> c, String name);

    /** What this thread hands to the JVM as a reflected method stands for this one, until the next call; 0 for itself. */
    static native void ask(long id);

    /** The JVM's own output goes nowhere until {@link #speak} gets what this returned. */
    static native int mute();

    static native void speak(int kept);

    private static native void done();

    @Override
    public void close() {
        done();
    }
}
