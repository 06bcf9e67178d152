// Screens of a plan: the fleet view for terminals and the markdown for pull requests. Pure.
import type { PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import { formatTable, stripControls } from '../../table.ts'
import { type FleetPlan, groupPlan, type PlanGroup } from './plan-groups.ts'

export interface PlanScreen {
  readonly plan: PlanWithResults
  readonly stack: string
  /** The command that applies the plan. */
  readonly apply: string
}

const marks = { update: '~', create: '+', delete: '-', denied: '!', unchecked: '?' } as const
const [namesMax, textMax, notesMax, markdownRowsMax] = [5, 60, 20, 200]

/** One line per object. `isWide` shows every field and agent, uncut. */
export function planLines(screen: PlanScreen, { width, isWide }: { width: number; isWide: boolean }): string[] {
  const fleet = groupPlan(screen.plan.results)
  const rows = fleet.groups.flatMap((group) => toRows(group, fleet, isWide))
  const hasGuard = fleet.groups.some(({ guards }) => guards.length > 0)
  return [
    `plan ${screen.plan.id}  ${sequences(screen)}   ${describeAgents(fleet)}   valid ${validity(screen.plan)}`,
    ...(rows.length === 0 ? [`  ${describeNothing(fleet)}`] : formatTable({ head: ['', '', '', ''], rows }, width, false).split('\n')),
    ...listNotes(fleet, isWide).map((note) => `note     ${stripControls(note)}`),
    ...(hasGuard ? [`guard    deletions wait after the apply for: brokkr agents approve-prune AGENT --stack ${screen.stack}`] : []),
    `apply    ${screen.apply}`,
  ]
}

export function planMarkdown(screen: PlanScreen): string[] {
  const fleet = groupPlan(screen.plan.results)
  const shown = fleet.groups.slice(0, markdownRowsMax)
  const left = fleet.groups.length - shown.length
  const rows = shown.map((group) => {
    const [, , where = '', what = ''] = toRows(group, fleet, false)[0]!
    const details = [where, what].filter((text) => text !== '').map(code)
    return `| ${code(marks[group.change])} | ${group.agents.length} | ${code(`${group.kind} ${group.name}`)} | ${details.join(' ')} |`
  })
  return [
    `### Plan of ${code(screen.stack)}: ${screen.plan.base_sequence_id ?? 0} → ${(screen.plan.base_sequence_id ?? 0) + 1}`,
    '',
    `${describeAgents(fleet)}, valid ${validity(screen.plan)}`,
    '',
    ...(rows.length === 0 ? [describeNothing(fleet)] : ['| | Agents | Object | Change |', '|---|---:|---|---|', ...rows]),
    ...(left === 0 ? [] : ['', `${left} more objects are not shown.`]),
    ...(fleet.notes.length === 0 ? [] : ['', ...listNotes(fleet, false).map((note) => `- ${code(note)}`)]),
    '',
    `Apply: ${code(screen.apply)}`,
  ]
}

const sequences = ({ stack, plan }: PlanScreen): string => `${stack} ${plan.base_sequence_id ?? 0} → ${(plan.base_sequence_id ?? 0) + 1}`

const validity = ({ expires_at, created_at }: PlanWithResults): string =>
  `${Math.round((Date.parse(expires_at) - Date.parse(created_at)) / 60_000)} min`

function describeAgents({ answered, silent, refused }: FleetPlan): string {
  const parts = [
    `${answered.length} dry-run`,
    ...(silent.length === 0 ? [] : [`${silent.length} silent: ${listNames(silent)}`]),
    ...(refused.length === 0 ? [] : [`${refused.length} refused: ${listNames(refused)}`]),
  ]
  return `${answered.length + silent.length + refused.length} agents (${parts.join(', ')})`
}

function describeNothing({ answered, silent, refused }: FleetPlan): string {
  if (answered.length + silent.length + refused.length === 0) return 'the stack targets no agent: nothing was checked'
  if (answered.length === 0) return 'no agent answered: the changes are unknown'
  return silent.length + refused.length === 0 ? 'no changes' : `no changes on the ${answered.length} agents that answered`
}

const listNames = (names: readonly string[]): string =>
  [...names.slice(0, namesMax), ...(names.length > namesMax ? [`and ${names.length - namesMax} more`] : [])].map(stripControls).join(' ')

const listNotes = ({ notes }: FleetPlan, isWide: boolean): string[] =>
  isWide || notes.length <= notesMax ? [...notes] : [...notes.slice(0, notesMax), `${notes.length - notesMax} more: -o wide`]

/** Cells: mark with count, object, field or agents, values or reason. The agents are named unless all that answered are meant. */
function toRows(group: PlanGroup, fleet: FleetPlan, isWide: boolean): string[][] {
  const count = `  ${marks[group.change]} ${String(group.agents.length).padEnd(String(fleet.answered.length).length)}`
  const object = `${group.kind} ${group.name}`
  const toNames = (agents: readonly string[]) =>
    agents.length === fleet.answered.length ? '' : isWide ? agents.join(' ') : listNames(agents)
  const reasons = [...group.guards.map((guard) => `GUARD: ${guard}`), ...group.messages]
  const fields = group.fields.map(({ path, before, after, agents }) => {
    const names = toNames(agents)
    const values = isWide ? `${before} → ${after}` : `${cut(before)} → ${cut(after)}`
    return [isWide ? path : cutStart(path), names === '' ? values : `${values}   on ${names}`]
  })
  const details = fields.length === 0 || reasons.length > 0 ? [[toNames(group.agents), reasons[0] ?? ''], ...fields] : fields
  const [first = ['', ''], ...more] = [...details, ...reasons.slice(1).map((reason) => ['', reason])]
  if (isWide) return [[count, object, ...first], ...more.map((cells) => ['', '', ...cells])]
  const rest = more.length === 0 ? '' : ` (+${more.length} more)`
  return [[count, object, first[0]!, `${first[1]!}${rest}`]]
}

const cut = (text: string): string => (text.length <= textMax ? text : `${text.slice(0, textMax - 1)}…`)
/** The end of a path says more than its start. */
const cutStart = (path: string): string => (path.length <= textMax ? path : `…${path.slice(1 - textMax)}`)

/** Text of a manifest must not act as markdown. */
const code = (text: string): string => `\`${stripControls(text).replaceAll('`', "'").replaceAll('|', '\\|')}\``
