package warren.workload;

/** One operation before it is made: {@code Operation.of("write", key).value(v).retryOf(id)}. Built by drivers. */
public final class Operation {
    final String kind;
    final String key;
    String value;
    long expect = Long.MIN_VALUE;
    long retryOf;
    /** Set when it was invoked: its id in the history. */
    long id;

    private Operation(String kind, String key) {
        this.kind = kind;
        this.key = key;
    }

    /** @param kind one of create, write, cas, delete, read, sync, ephemeral */
    public static Operation of(String kind, String key) {
        return new Operation(kind, key);
    }

    public Operation value(String text) {
        value = text;
        return this;
    }

    /** The version that a cas asks for. */
    public Operation expect(long version) {
        expect = version;
        return this;
    }

    /** The operation that this one tries again; 0 = none. */
    public Operation retryOf(long first) {
        retryOf = first;
        return this;
    }

    public long id() {
        return id;
    }
}
