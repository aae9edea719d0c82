package warren.runtime;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;

/**
 * A thread as the JVM knows it. Asked by {@link Points}. What a target's class may override is never called: ZooKeeper's QuorumPeer
 * answers getId() with its server's number, and an interrupt() of a target's own may close things, or not interrupt at all.
 *
 * <p>Before Java 19 both need java.lang, which premain opens; where it is closed (tests in one JVM) the next best stands in.
 */
final class Threads {
    /** (Thread)long: final in Java 19 and later, before that the field behind getId(). Null where it is not to be had. */
    private static final MethodHandle ID = id();
    /** (Thread)void: Thread's own, whatever the thread's class. Null where it is not to be had. */
    private static final MethodHandle INTERRUPT = interrupt();

    private Threads() {}

    private static MethodHandle id() {
        try {
            return MethodHandles.lookup().findVirtual(Thread.class, "threadId", MethodType.methodType(long.class));
        } catch (ReflectiveOperationException before19) {
            try {
                return inside().findGetter(Thread.class, "tid", long.class);
            } catch (Throwable t) {
                return null;
            }
        }
    }

    private static MethodHandle interrupt() {
        try {
            return inside().findSpecial(Thread.class, "interrupt", MethodType.methodType(void.class), Thread.class);
        } catch (Throwable t) {
            return null;
        }
    }

    /** By reflection: privateLookupIn is not in Java 8, and there nothing is closed. */
    private static MethodHandles.Lookup inside() throws ReflectiveOperationException {
        try {
            return (MethodHandles.Lookup) MethodHandles.class.getMethod("privateLookupIn", Class.class, MethodHandles.Lookup.class)
                    .invoke(null, Thread.class, MethodHandles.lookup());
        } catch (NoSuchMethodException java8) {
            Field all = MethodHandles.Lookup.class.getDeclaredField("IMPL_LOOKUP");
            all.setAccessible(true);
            return ((MethodHandles.Lookup) all.get(null)).in(Thread.class);
        }
    }

    /** Looks for them now and not inside the first hook: called by premain. */
    static void start() {
        id(Thread.currentThread());
    }

    /** The id that the JVM gave it; a number of its own where that cannot be read. */
    static long id(Thread thread) {
        if (ID != null) {
            try {
                return (long) ID.invokeExact(thread);
            } catch (Throwable t) {
                Link.count(Link.ERRORS);
            }
        }
        return System.identityHashCode(thread);
    }

    static boolean virtual(Thread thread) {
        return thread.getClass().getName().equals("java.lang.VirtualThread");
    }

    /** Sets its interrupt flag (a virtual thread's own class, which no target extends, does that its own way). */
    static void interrupt(Thread thread) {
        if (INTERRUPT != null && !virtual(thread)) {
            try {
                INTERRUPT.invokeExact(thread);
                return;
            } catch (Throwable t) {
                Link.count(Link.ERRORS);
            }
        }
        thread.interrupt();
    }
}
