// Prints conditions: the text parses to the same condition.
import type { ConditionNode, Operand } from './condition.ts'
import { printLiteral, printQuoted } from './literal.ts'
import { printPath } from './path-print.ts'

export function printCondition(node: ConditionNode): string {
  if (node.kind === 'or')
    return node.of.map((part) => (part.kind === 'or' ? `(${printCondition(part)})` : printCondition(part))).join(' || ')
  if (node.kind === 'and') return node.of.map(printTight).join(' && ')
  if (node.kind === 'not') return `!${printTight(node.of)}`
  if (node.kind === 'truth') return printOperand(node.operand)
  if (node.kind === 'exists') return `exists(${printOperand(node.operand)})`
  if (node.kind === 'compare') return `${printOperand(node.operand)} ${node.operator} ${printLiteral(node.literal)}`
  if (node.kind === 'in') return `${printOperand(node.operand)} in [${node.literals.map(printLiteral).join(', ')}]`
  return `${printOperand(node.operand)} matches ${printQuoted(node.pattern)}`
}

const printTight = (node: ConditionNode): string =>
  node.kind === 'or' || node.kind === 'and' ? `(${printCondition(node)})` : printCondition(node)

function printOperand({ from, segments }: Operand): string {
  const path = printPath(segments)
  if (from === 'metadata') return `metadata.${path}`
  // A payload key of that name must not parse as the message's metadata.
  return path.startsWith('metadata.') ? `$.${path}` : path
}
