package warren.runtime;

/** {@link Walker} for Java 8: the stack trace of a Throwable. */
final class Walker8 extends Walker {
    @Override
    long key() {
        StackTraceElement[] all = new Throwable().getStackTrace();
        long h = 1;
        for (StackTraceElement e : all) {
            h = mix(h, e.getClassName().hashCode());
            h = mix(h, e.getMethodName().hashCode() * 31 + e.getLineNumber());
        }
        return h;
    }

    @Override
    String[] frames() {
        StackTraceElement[] all = new Throwable().getStackTrace();
        String[] frames = new String[all.length * 3];
        for (int i = 0; i < all.length; i++) {
            frames[3 * i] = all[i].getClassName();
            frames[3 * i + 1] = all[i].getMethodName();
            frames[3 * i + 2] = Integer.toString(all[i].getLineNumber());
        }
        return frames;
    }
}
