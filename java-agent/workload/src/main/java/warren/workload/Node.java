package warren.workload;

/** One server of the cluster as the workload sees it. Given to drivers; reads the page, writes nothing. */
public final class Node {
    public final String name;
    /** Its IPv4 address; every node listens on its own. */
    public final String address;
    public final int index;
    private final WorkloadPage page;

    Node(String name, String address, int index, WorkloadPage page) {
        this.name = name;
        this.address = address;
        this.index = index;
        this.page = page;
    }

    /** Whether Warren has its process running (it need not serve yet). */
    public boolean alive() {
        return (page.node(index) & 0xff) == 1;
    }

    /** How often it was started; rises with every reboot. */
    public long incarnation() {
        return page.node(index) >>> 8;
    }

    @Override
    public String toString() {
        return name;
    }
}
