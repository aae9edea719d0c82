package sun.hotspot;

import java.lang.reflect.Executable;

/**
 * HotSpot's own test interface, of which {@code warren.agent.Park} uses two calls: the JVM fills in the natives of a class of this
 * name on the boot class path when it runs with {@code -XX:+UnlockDiagnosticVMOptions -XX:+WhiteBoxAPI}. Never touched in a JVM
 * without these flags.
 */
public final class WhiteBox {
    /** The level of a JVM with {@code -XX:TieredStopAtLevel=1}: C1 without profiling. */
    public static final int SIMPLE = 1;

    static {
        registerNatives();
    }

    private static native void registerNatives();

    /** Asks for the method to be compiled from its start ({@code entryBci} -1); false where the JVM does not want to. */
    public native boolean enqueueMethodForCompilation0(Executable method, int level, int entryBci);

    /** How many methods wait to be compiled at this level. */
    public native int getCompileQueueSize(int level);
}
