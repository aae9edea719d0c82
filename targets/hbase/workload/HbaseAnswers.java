import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import warren.workload.Result;

/**
 * What was answered to one table operation, call by call, and what it says that a truncate or a delete was refused because the table is not
 * disabled. Only the fixed steps administer their table, so whoever disabled it, and was told so, may not be refused by its next call. A call
 * made again may be: the one before may have done the work, and HBase promises no more.
 */
final class HbaseAnswers {
    /** What one call came to. */
    enum Answer {
        OK, UNKNOWN,
        /** Refused as the table is not disabled. The outcome is unknown all the same: the client may have asked twice. */
        REFUSED;

        static Answer of(Result result) {
            // An exception's text, whatever it is wrapped in.
            boolean refused = !result.isOk() && String.valueOf(result.error()).contains("TableNotDisabledException");
            return result.isOk() ? OK : refused ? REFUSED : UNKNOWN;
        }
    }

    private final List<Answer> all = Collections.synchronizedList(new ArrayList<>());

    /** @return the same result */
    Result add(Result result) {
        all.add(Answer.of(result));
        return result;
    }

    /** It was answered that it is done; not only seen. */
    private boolean done() {
        return !all.isEmpty() && all.get(all.size() - 1) == Answer.OK;
    }

    private boolean firstIs(Answer answer) {
        return !all.isEmpty() && all.get(0) == answer;
    }

    /** The first truncate was refused though its table had been disabled. */
    static boolean wronglyRefused(HbaseAnswers disable, HbaseAnswers truncate) {
        return disable.done() && truncate.firstIs(Answer.REFUSED);
    }

    /** The same of a delete. A truncate that was asked for twice may have been made after the disable, and enabled the table. */
    static boolean wronglyRefused(HbaseAnswers truncate, HbaseAnswers disable, HbaseAnswers delete) {
        return truncate.done() && truncate.all.size() == 1 && wronglyRefused(disable, delete);
    }

    /** A truncate was made, and the client was told nothing of it but that the table is not disabled. */
    static boolean misleading(HbaseAnswers truncate) {
        return truncate.firstIs(Answer.UNKNOWN) && truncate.all.contains(Answer.REFUSED) && !truncate.all.contains(Answer.OK);
    }

    @Override
    public String toString() {
        return all.toString();
    }
}
