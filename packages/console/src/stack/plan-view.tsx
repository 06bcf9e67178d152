// What a change would do on every targeted cluster, computed by the agents while the dialog is open. Agents that do not answer are named.
import { useEffect } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { ErrorCard } from '../parts/error-card.tsx'
import { Glyph, type State } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { groupPlan, type PlanGroup } from './group-plan.ts'

interface PlanViewProps {
  readonly stackId: string
  /** What is planned: the content of this version again, or the removal of everything. */
  readonly change: { readonly sequenceId: number } | 'removal'
}

const groupsMax = 60
const states: Readonly<Record<PlanGroup['change'], State>> = {
  create: 'progressing',
  update: 'progressing',
  delete: 'failing',
  denied: 'failing',
  unchecked: 'unknown',
}

export function PlanView({ stackId, change }: PlanViewProps) {
  const blocked = useReadonlyReason()
  const { mutate, data: plan, error } = useDeed('createPlan')
  const sequenceId = change === 'removal' ? null : change.sequenceId
  useEffect(() => {
    if (blocked !== null) return
    const body = sequenceId === null ? { is_deletion_marker: true } : { sequence_id: sequenceId, is_deletion_marker: false }
    mutate({ params: { id: stackId }, body })
  }, [mutate, stackId, sequenceId, blocked])
  const results = useCall(
    'getPlan',
    { params: { id: plan?.id ?? '' } },
    { enabled: plan !== undefined, everyMs: 2_000, isFinal: (answer) => answer.results.every(({ state }) => state !== 'waiting') },
  )
  if (error !== null) return <ErrorCard error={error} />
  if (blocked !== null) return null
  if (results.data === undefined) return <p className="quiet">Agents compute the plan…</p>
  const { answered, waiting, missing, incomplete, changes, groups } = groupPlan(results.data.results)
  const total = results.data.agents_total
  return (
    <section aria-label="Plan" className="col stack-gap">
      <p className="ink-2">
        <b>{changes}</b> {changes === 1 ? 'change' : 'changes'} on <b>{answered}</b> of <b>{total}</b>{' '}
        {total === 1 ? 'cluster' : 'clusters'}
        {waiting === 0 ? '' : `; ${waiting} still ${waiting === 1 ? 'computes' : 'compute'}`}
      </p>
      {missing.length === 0 ? null : (
        <p className="ink-2">
          <Glyph state="stale" /> No answer from{' '}
          {missing
            .slice(0, 10)
            .map(({ agent, state, reason }) => `${plainText(agent, 60)} (${plainText(reason ?? state, 80)})`)
            .join(', ')}
          {missing.length > 10 ? ` and ${missing.length - 10} more` : ''}
        </p>
      )}
      {incomplete.length === 0 ? null : (
        <p className="ink-2">
          <Glyph state="stale" /> The list below omits changes on{' '}
          {incomplete
            .slice(0, 10)
            .map((agent) => plainText(agent, 60))
            .join(', ')}
          {incomplete.length > 10 ? ` and ${incomplete.length - 10} more` : ''}; brokkr plan shows all.
        </p>
      )}
      <ul className="plan" aria-label="Changes of the plan">
        {groups.slice(0, groupsMax).map((group) => (
          <li key={group.key}>
            <b title={group.clusters.join(', ')}>{group.clusters.length}</b>
            <span className="grow">
              {group.change} {plainText(group.kind, 60)} <span className="mono">{plainText(group.name, 80)}</span>
              {group.holdsData ? <b> holds data</b> : null}
              {group.guard === null ? null : <span className="ink-3"> held by the prune guard: {plainText(group.guard, 200)}</span>}
              {group.message === null ? null : <span className="ink-3"> {plainText(group.message, 200)}</span>}
              {group.fields.length === 0 ? null : (
                <span className="ink-3">
                  {' '}
                  {group.fields
                    .slice(0, 4)
                    .map(({ path }) => plainText(path, 80))
                    .join(', ')}
                </span>
              )}
            </span>
            <Glyph state={states[group.change]} />
          </li>
        ))}
      </ul>
      {groups.length > groupsMax ? <p className="quiet">{groups.length - groupsMax} more groups; brokkr plan shows all.</p> : null}
    </section>
  )
}
