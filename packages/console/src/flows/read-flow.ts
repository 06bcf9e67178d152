// Reads flows from YAML or JSON text. The reader of YAML is loaded with the pages of flows alone.
import { type Document, parseAllDocuments } from 'yaml'

export interface FlowText {
  readonly flow: Readonly<Record<string, unknown>> | null
  /** What is wrong with the text, as sentences with their line. */
  readonly problems: readonly string[]
}

const charactersMax = 1_000_000

/** Pure. The first DataFlow or DataFlowCron, or the one with this name. */
export function readFlow(text: string, name?: string): FlowText {
  if (text.trim() === '') return { flow: null, problems: ['the text is empty: write a DataFlow'] }
  if (text.length > charactersMax) return { flow: null, problems: [`the text has more than ${charactersMax} characters`] }
  const documents = parseAllDocuments(text, { prettyErrors: true })
  if (!Array.isArray(documents)) return { flow: null, problems: ['the text has no document'] }
  const problems = documents.flatMap(({ errors }) => errors.map((error) => error.message.split('\n')[0]!))
  if (problems.length > 0) return { flow: null, problems: problems.slice(0, 20) }
  const flows = toValues(documents)?.filter(isFlow)
  if (flows === undefined) return { flow: null, problems: ['the text has too many aliases'] }
  const flow = flows.find(({ metadata }) => name === undefined || (metadata as { name?: unknown } | undefined)?.name === name) ?? null
  return { flow, problems: flow === null ? [`the text has no DataFlow${name === undefined ? '' : ` ${name}`}`] : [] }
}

/** Undefined at too many aliases: a short text must not become a large value. */
function toValues(documents: readonly Document.Parsed[]): unknown[] | undefined {
  try {
    return documents.map((document) => document.toJS({ maxAliasCount: 100 }) as unknown)
  } catch {
    return undefined
  }
}

function isFlow(value: unknown): value is Record<string, unknown> {
  const kind = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)['kind'] : undefined
  return kind === 'DataFlow' || kind === 'DataFlowCron'
}
