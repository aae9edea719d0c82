package warren.runtime;

/**
 * Walks the stack of the present thread. Called by {@link Stacks} only, from inside a hook.
 *
 * <p>Two implementations, chosen by the version of the JVM: {@code Walker9} (StackWalker) and {@link Walker8} (Throwable).
 */
abstract class Walker {
    /** A hash of every frame with its place in the code: equal stacks give equal keys, at a fraction of a full walk. */
    abstract long key();

    /** All frames, innermost first: class, method, line number (as text) in turn. */
    abstract String[] frames();

    static long mix(long h, int value) {
        h = (h ^ value) * 0x9E3779B97F4A7C15L;
        return h ^ (h >>> 29);
    }
}
