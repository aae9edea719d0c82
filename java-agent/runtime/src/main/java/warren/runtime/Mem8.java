package warren.runtime;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.MappedByteBuffer;

/**
 * {@link Mem} for Java 8: sun.misc.Unsafe, found by reflection because {@code --release 8} hides it, called through constant
 * method handles, which the compiler inlines.
 */
final class Mem8 extends Mem {
    private static final MethodHandle GET;
    private static final MethodHandle PUT;
    private static final MethodHandle CAS;
    private static final MethodHandle ADD;
    private static final MethodHandle PUT_BYTE;
    private static final MethodHandle GET_BYTE;
    private static final MethodHandle ADDRESS;

    static {
        try {
            Class<?> type = Class.forName("sun.misc.Unsafe");
            Field field = type.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            Object unsafe = field.get(null);
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            Class<?> o = Object.class;
            GET = lookup.unreflect(type.getMethod("getLongVolatile", o, long.class)).bindTo(unsafe);
            PUT = lookup.unreflect(type.getMethod("putOrderedLong", o, long.class, long.class)).bindTo(unsafe);
            CAS = lookup.unreflect(type.getMethod("compareAndSwapLong", o, long.class, long.class, long.class)).bindTo(unsafe);
            ADD = lookup.unreflect(type.getMethod("getAndAddLong", o, long.class, long.class)).bindTo(unsafe);
            PUT_BYTE = lookup.unreflect(type.getMethod("putByte", long.class, byte.class)).bindTo(unsafe);
            GET_BYTE = lookup.unreflect(type.getMethod("getByte", long.class)).bindTo(unsafe);
            MethodHandle getLong = lookup.unreflect(type.getMethod("getLong", o, long.class)).bindTo(unsafe);
            long offset = (Long) type.getMethod("objectFieldOffset", Field.class)
                    .invoke(unsafe, Buffer.class.getDeclaredField("address"));
            ADDRESS = MethodHandles.insertArguments(getLong, 1, offset);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final MappedByteBuffer buffer;
    private final long base;
    private final int size;

    Mem8(MappedByteBuffer buffer) throws IOException {
        this.buffer = buffer;
        size = buffer.capacity();
        try {
            base = (long) ADDRESS.invokeExact((Object) buffer);
        } catch (Throwable t) {
            throw new IOException("the address of a mapped page is not readable", t);
        }
    }

    /** An access outside the page would be a wild store: refuse it here, as no buffer checks it. */
    private long at(int offset, int bytes) {
        if (offset < 0 || offset > size - bytes) {
            throw new IndexOutOfBoundsException("offset outside the page");
        }
        return base + offset;
    }

    private static RuntimeException sneak(Throwable t) {
        return t instanceof RuntimeException ? (RuntimeException) t : new IllegalStateException(t);
    }

    @Override
    public long get(int offset) {
        try {
            return (long) GET.invokeExact((Object) null, at(offset, 8));
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    @Override
    public void put(int offset, long value) {
        try {
            PUT.invokeExact((Object) null, at(offset, 8), value);
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    @Override
    public boolean cas(int offset, long expected, long value) {
        try {
            return (boolean) CAS.invokeExact((Object) null, at(offset, 8), expected, value);
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    @Override
    public long add(int offset, long delta) {
        try {
            return (long) ADD.invokeExact((Object) null, at(offset, 8), delta);
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    @Override
    public void putByte(int offset, byte value) {
        try {
            PUT_BYTE.invokeExact(at(offset, 1), value);
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    @Override
    public byte getByte(int offset) {
        try {
            return (byte) GET_BYTE.invokeExact(at(offset, 1));
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    @Override
    public void write(int offset, byte[] bytes) {
        java.nio.ByteBuffer view = buffer.duplicate();
        ((Buffer) view).position(offset);
        view.put(bytes);
    }

    @Override
    public byte[] read(int offset, int length) {
        java.nio.ByteBuffer view = buffer.duplicate();
        ((Buffer) view).position(offset);
        byte[] bytes = new byte[length];
        view.get(bytes);
        return bytes;
    }
}
