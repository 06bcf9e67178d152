// Compiles conditions to closures that run per message. A payload that is not JSON is undefined, so all its operands are missing.
import { compileCompare, compileIn, type Test } from './compare.ts'
import type { Condition, ConditionNode, Operand } from './condition.ts'
import type { Json, Metadata } from './json.ts'
import type { PatternEngine } from './patterns.ts'
import { compileRead } from './read-path.ts'
import { isTrue, metadataJson, stringForm } from './string-form.ts'

export type Predicate = (payload: Json | undefined, metadata: Metadata) => boolean

export const compileCondition = (condition: Condition, patterns: PatternEngine): Predicate => compileNode(condition.root, patterns)

/** Whether evaluation needs the payload. */
export function usesPayload(node: ConditionNode): boolean {
  if (node.kind === 'not') return usesPayload(node.of)
  return 'of' in node ? node.of.some(usesPayload) : node.operand.from === 'payload'
}

function compileNode(node: ConditionNode, patterns: PatternEngine): Predicate {
  if (node.kind === 'or')
    return node.of.map((part) => compileNode(part, patterns)).reduceRight((rest, first) => (p, m) => first(p, m) || rest(p, m))
  if (node.kind === 'and')
    return node.of.map((part) => compileNode(part, patterns)).reduceRight((rest, first) => (p, m) => first(p, m) && rest(p, m))
  if (node.kind === 'not') {
    const inner = compileNode(node.of, patterns)
    return (payload, metadata) => !inner(payload, metadata)
  }
  if (node.kind === 'truth') return on(node.operand, isTrue)
  if (node.kind === 'exists') return on(node.operand, (value) => value !== undefined)
  if (node.kind === 'compare') return on(node.operand, compileCompare(node.operator, node.literal))
  if (node.kind === 'in') return on(node.operand, compileIn(node.literals))
  return on(node.operand, matchesPattern(node.pattern, patterns))
}

function on(operand: Operand, test: Test): Predicate {
  const read = compileRead(operand.segments)
  if (operand.from === 'payload') return (payload) => test(read(payload))
  return (_payload, metadata) => test(metadataJson(read(metadata as unknown as Json)))
}

function matchesPattern(pattern: string, patterns: PatternEngine): Test {
  const isMatch = patterns.compile(pattern)
  return (value) => value !== undefined && isMatch(stringForm(value))
}
