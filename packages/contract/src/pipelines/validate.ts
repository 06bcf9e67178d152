// Checks a stored Pipeline: the schema, and the rules that the schema cannot hold. The API server enforces the schema for new objects;
// an object stored under an older schema is checked here and never promoted while a rule is broken.
import type { z } from 'zod'
import { parseDuration } from '../dataflow/fields/duration.ts'
import { isIanaZone } from '../dataflow/language/zone.ts'
import { type Environment, PipelineSpec, type Window } from './pipeline-spec.ts'
import { parseLocalTime, parseRecurrence } from './recurrence.ts'
import type { Strategy } from './strategy.ts'

export interface Problem {
  /** Dotted path inside the spec: `environments[1].name`. */
  readonly path: string
  readonly message: string
}

export type ValidatedSpec =
  | { readonly ok: true; readonly spec: PipelineSpec }
  | { readonly ok: false; readonly problems: readonly Problem[] }

const problemsMax = 20

export function validatePipelineSpec(value: unknown): ValidatedSpec {
  const parsed = PipelineSpec.safeParse(value)
  if (!parsed.success) return { ok: false, problems: parsed.error.issues.slice(0, problemsMax).map(toProblem) }
  const problems = checkSpec(parsed.data).slice(0, problemsMax)
  return problems.length === 0 ? { ok: true, spec: parsed.data } : { ok: false, problems }
}

/** One text for a condition's message. */
export const describeProblems = (problems: readonly Problem[]): string =>
  problems.map(({ path, message }) => `spec.${path}: ${message}`).join('; ')

function toProblem(issue: z.core.$ZodIssue): Problem {
  const path = issue.path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`)).join('')
  return { path: path.replace(/^\./, ''), message: issue.message }
}

function checkSpec(spec: PipelineSpec): Problem[] {
  return [
    ...checkUniqueNames(spec.environments),
    ...(spec.promotion ? checkStrategy(spec.promotion.strategy, 'promotion.strategy') : []),
    ...spec.environments.flatMap((environment, index) => checkEnvironment(environment, `environments[${index}]`)),
  ]
}

function checkUniqueNames(environments: readonly Environment[]): Problem[] {
  const first = new Map<string, number>()
  return environments.flatMap(({ name }, index) => {
    if (!first.has(name)) return first.set(name, index) && []
    return [{ path: `environments[${index}].name`, message: `"${name}" is the name of environments[${first.get(name)}] too` }]
  })
}

function checkEnvironment(environment: Environment, path: string): Problem[] {
  const deadline = environment.approval?.deadline
  return [
    ...(environment.promotion ? checkStrategy(environment.promotion.strategy, `${path}.promotion.strategy`) : []),
    ...(deadline !== undefined && parseDuration(deadline) === undefined
      ? [{ path: `${path}.approval.deadline`, message: `"${deadline}" is not a duration such as 24h` }]
      : []),
    ...(environment.windows ?? []).flatMap((window, index) => checkWindow(window, `${path}.windows[${index}]`)),
  ]
}

function checkStrategy(strategy: Strategy, path: string): Problem[] {
  const present = (['pull-request', 'notification', 'stack'] as const).filter((name) => strategy[name] !== undefined)
  return present.length > 1 ? [{ path, message: `at most one strategy may be set, not ${present.join(' and ')}` }] : []
}

/** Also used for the windows of the configuration file. */
export function checkWindow(window: Window, path: string): Problem[] {
  const problems: Problem[] = []
  const add = (field: string, message: string) => problems.push({ path: `${path}.${field}`, message })
  if (parseLocalTime(window.start) === undefined) add('start', `"${window.start}" is not a local time such as 2026-01-31T09:00:00`)
  const duration = parseDuration(window.duration)
  if (duration === undefined || duration < 1000) add('duration', `"${window.duration}" is not a duration of at least 1s`)
  else if (duration > windowMsMax) add('duration', 'a window lasts at most 8784h (one year)')
  for (const [index, exdate] of (window.exdates ?? []).entries())
    if (parseLocalTime(exdate) === undefined) add(`exdates[${index}]`, `"${exdate}" is not a local time`)
  if (window.timezone !== undefined && !isIanaZone(window.timezone)) add('timezone', `"${window.timezone}" is not an IANA time zone`)
  if (window.rrule !== undefined) {
    const recurrence = parseRecurrence(window.rrule)
    if (!recurrence.ok) add('rrule', recurrence.problem)
  }
  return problems
}

const windowMsMax = 8784 * 3_600_000
