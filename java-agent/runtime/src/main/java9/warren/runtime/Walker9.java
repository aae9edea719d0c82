package warren.runtime;

import java.util.ArrayList;
import java.util.function.Consumer;

/**
 * {@link Walker} for Java 9 and later. {@code forEach} with a plain Consumer, because {@code walk} would load streams and
 * lambdas into every node.
 */
final class Walker9 extends Walker {
    private static final StackWalker WALKER = StackWalker.getInstance();

    @Override
    long key() {
        Key key = new Key();
        WALKER.forEach(key);
        return key.hash;
    }

    @Override
    String[] frames() {
        Frames frames = new Frames();
        WALKER.forEach(frames);
        return frames.list.toArray(new String[0]);
    }

    private static final class Key implements Consumer<StackWalker.StackFrame> {
        long hash = 1;

        @Override
        public void accept(StackWalker.StackFrame frame) {
            long h = mix(hash, frame.getClassName().hashCode());
            // The method's name is needed: two lambdas of one class called from one place differ in nothing else.
            hash = mix(h, frame.getMethodName().hashCode() * 31 + frame.getByteCodeIndex());
        }
    }

    private static final class Frames implements Consumer<StackWalker.StackFrame> {
        final ArrayList<String> list = new ArrayList<>(128);

        @Override
        public void accept(StackWalker.StackFrame frame) {
            list.add(frame.getClassName());
            list.add(frame.getMethodName());
            list.add(Integer.toString(frame.getLineNumber()));
        }
    }
}
