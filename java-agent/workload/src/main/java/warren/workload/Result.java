package warren.workload;

/**
 * What one operation came to. Made by drivers, written by {@link History}. {@code ok}: it happened; {@code failed}: it did NOT
 * happen (only answers that target.toml lists as definite); {@code unknown}: it may have happened.
 */
public final class Result {
    final String outcome;
    final String error;
    String value;
    long version = Long.MIN_VALUE;
    long zxid;
    long mzxid;

    private Result(String outcome, String error) {
        this.outcome = outcome;
        this.error = error;
    }

    public static Result ok() {
        return new Result("ok", null);
    }

    public static Result failed(String error) {
        return new Result("failed", error);
    }

    public static Result unknown(String error) {
        return new Result("unknown", error);
    }

    /** What a read saw (null = absent) or a write stored. */
    public Result value(String text) {
        value = text;
        return this;
    }

    /** The key's version after the operation. */
    public Result version(long number) {
        version = number;
        return this;
    }

    /** The system's order number at this answer. */
    public Result zxid(long number) {
        zxid = number;
        return this;
    }

    /** The order number of the change that was made or seen. */
    public Result mzxid(long number) {
        mzxid = number;
        return this;
    }

    public boolean isOk() {
        return outcome.equals("ok");
    }

    public boolean isUnknown() {
        return outcome.equals("unknown");
    }

    public String error() {
        return error;
    }

    public String value() {
        return value;
    }

    public long version() {
        return version;
    }
}
