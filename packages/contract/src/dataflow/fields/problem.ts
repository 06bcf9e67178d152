// A problem of a flow: path as the user wrote it, reason, and validation rule.

export type Rule = `V${number}`

export interface Problem {
  /** Starts with `spec` or `metadata`. */
  readonly path: string
  readonly reason: string
  readonly rule: Rule
}

/** Does not prevent the flow from running. Has a rule if a stricter setting would refuse it. */
export interface Warning {
  readonly path: string
  readonly reason: string
  readonly rule?: Rule
}

export const printProblem = ({ path, reason }: Problem | Warning): string => `${path}: ${reason}`
