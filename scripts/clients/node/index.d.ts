export const version: string;

export type Verdict = "charge" | "check_store" | "do_not_charge" | "retry";
export const Verdict: {
  readonly CHARGE: "charge";
  /** The payment was released before with this reference: charge only if your own store shows that no submission was begun. */
  readonly CHECK_STORE: "check_store";
  readonly DO_NOT_CHARGE: "do_not_charge";
  /** The payment must not be charged yet. The same call later shows whether it was released. */
  readonly RETRY: "retry";
};
export const VERDICTS: Readonly<Record<string, Verdict>>;
/** Returns the verdict on a refusal by its code, or by its status if the code is unknown because the daemon is newer. */
export function verdictOf(status: number, code: string | null): Verdict;

/** Values that the order states. A payment token that differs in one is refused. */
export interface Expected {
  currencyCode?: string;
  transactionAmount?: number;
  merchantIdentifier?: string;
  applicationData?: string | null;
  applicationDataHash?: string;
}

export interface Options {
  deadline?: number; // milliseconds for the whole call
  merchants?: string[]; // the parties on whose behalf the backend asks
  after?: string[]; // earlier attempts for this payment token that certainly led to no payment; needs saveAttempt
  saveAttempt?: (attempt: string) => void | Promise<void>; // stores an attempt durably, before its try
}

/** The outcome of one call. `answer` contains the card data, so neither console.log nor JSON.stringify shows it. */
export class Outcome {
  readonly verdict: Verdict;
  readonly status: number | null; // of the last answer; null if the last try got none
  readonly code: string | null;
  readonly message: string | null;
  readonly details: string | null;
  readonly retryAfter: number; // milliseconds that the daemon asked for
  readonly problem: string | null; // the reason why the last try got no answer
  readonly repeated: boolean;
  readonly attempt: string | null; // the one that the answer belongs to
  readonly tries: number;
  readonly answer: Readonly<Record<string, any>> | null;
}

export class Client {
  constructor(path?: string, options?: { maxConnections?: number });
  /** Closes all connections. The client can still be used. */
  close(): void;
  /** Retries until there is a final answer or the deadline has passed. Rejects only with EACCES or a RangeError. */
  decrypt(token: object, reference: string, expected?: Expected, options?: Options): Promise<Outcome>;
}
