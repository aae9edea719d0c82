package warren.runtime;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;

/** {@link Mem} for Java 9 and later: one view VarHandle over the mapped buffer, absolute access only. */
public final class Mem9 extends Mem {
    private static final VarHandle WORD = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final ByteBuffer buffer;

    public Mem9(MappedByteBuffer buffer) {
        this.buffer = buffer;
    }

    @Override
    public long get(int offset) {
        return (long) WORD.getAcquire(buffer, offset);
    }

    @Override
    public void put(int offset, long value) {
        WORD.setRelease(buffer, offset, value);
    }

    @Override
    public boolean cas(int offset, long expected, long value) {
        return WORD.compareAndSet(buffer, offset, expected, value);
    }

    @Override
    public long add(int offset, long delta) {
        return (long) WORD.getAndAdd(buffer, offset, delta);
    }

    @Override
    public void putByte(int offset, byte value) {
        buffer.put(offset, value);
    }

    @Override
    public byte getByte(int offset) {
        return buffer.get(offset);
    }

    @Override
    public void write(int offset, byte[] bytes) {
        ByteBuffer view = buffer.duplicate();
        ((Buffer) view).position(offset);
        view.put(bytes);
    }

    @Override
    public byte[] read(int offset, int length) {
        ByteBuffer view = buffer.duplicate();
        ((Buffer) view).position(offset);
        byte[] bytes = new byte[length];
        view.get(bytes);
        return bytes;
    }
}
