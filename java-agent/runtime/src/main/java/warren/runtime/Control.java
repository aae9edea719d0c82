package warren.runtime;

/** What premain (another package and class loader) may switch. */
public final class Control {
    private Control() {}

    /** Takes the raw backtrace of exceptions into use; premain has opened java.lang to this package's module. @return whether it is to be had */
    public static boolean backtrace() {
        return Walker.start();
    }

    public static void enable() {
        Points.enable(true);
    }
}
