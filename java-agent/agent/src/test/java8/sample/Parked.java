package sample;

/** A program whose classes say when they are initialised. */
public class Parked {
    /** Its initialisation is heard. */
    static class Loud {
        static {
            System.out.println("loud");
        }

        static int say(int n) {
            return n + 1;
        }
    }

    /** Has no static initialiser of its own. */
    static class Above extends Loud {
        static int more(int n) {
            return n + 2;
        }
    }

    /** To initialise it does nothing. */
    static class Quiet {
        static int twice(int n) {
            return n + n;
        }
    }

    public static void main(String[] args) {
        System.out.println("main");
        System.out.println(Quiet.twice(Above.more(Loud.say(1))));
    }
}
