// What is wrong with a flow, and where: the path as the user wrote it, the text, the rule of the list it comes from.

export type Rule = `V${number}`

export interface Problem {
  /** Begins with `spec`, or `metadata`. */
  readonly path: string
  readonly reason: string
  readonly rule: Rule
}

/** Does not keep a flow from running. A rule where a stricter setting would refuse it. */
export interface Warning {
  readonly path: string
  readonly reason: string
  readonly rule?: Rule
}

export const printProblem = ({ path, reason }: Problem | Warning): string => `${path}: ${reason}`
