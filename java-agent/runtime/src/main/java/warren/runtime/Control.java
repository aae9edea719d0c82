package warren.runtime;

/** What premain (another package and class loader) may switch. */
public final class Control {
    private Control() {}

    public static void enable() {
        Points.enable(true);
    }
}
