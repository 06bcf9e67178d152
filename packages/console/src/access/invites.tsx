// Invites for clusters: the wizard, and the invites that exist.
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age, formatSpan, useNow } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, type State, StateText } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { Name } from '../parts/text.tsx'
import { JoinWizard } from './join-wizard.tsx'

export function Invites() {
  const invites = useCall('listAgentInvites', { query: { limit: 200 } })
  const now = useNow()
  const revoke = useDeed('revokeAgentInvite')
  const blocked = useReadonlyReason()
  const [round, setRound] = useState(0)
  return (
    <div className="col stack-gap">
      <div>
        <JoinWizard key={round} />
        <button type="button" className="btn bare sm" onClick={() => setRound(round + 1)}>
          <Icon name="plus" size="m" />
          Another invite
        </button>
      </div>
      <Panel title="Invites" count={invites.data?.length} query={invites}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No invite yet">An invite lets one cluster join, or a counted number of them.</Empty>
          ) : (
            <div className="table-wrap" tabIndex={0}>
              {revoke.error === null ? null : <ErrorCard error={revoke.error} />}
              <table className="table">
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>State</th>
                    <th className="num">Uses left</th>
                    <th>Rights</th>
                    <th className="num">Joined</th>
                    <th className="num">Created</th>
                    <th>
                      <span className="sr-only">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((invite) => {
                    const leftMs = Date.parse(invite.expires_at) - now
                    const [state, words]: readonly [State, string] =
                      invite.revoked_at !== null
                        ? ['unknown', 'revoked']
                        : invite.uses_left === 0
                          ? ['current', 'used']
                          : leftMs <= 0
                            ? ['stale', 'expired']
                            : ['progressing', `valid ${formatSpan(leftMs)}`]
                    return (
                      <tr key={invite.id}>
                        <td>
                          <Name text={invite.name ?? `${invite.name_prefix ?? ''}…`} className="b" />
                        </td>
                        <td>
                          <StateText state={state}>{words}</StateText>
                        </td>
                        <td className="num">
                          {invite.uses_left} of {invite.uses}
                        </td>
                        <td>{invite.preset}</td>
                        <td className="num">{invite.agents.length}</td>
                        <td className="num">
                          <Age at={invite.created_at} />
                        </td>
                        <td className="num">
                          {words.startsWith('valid') ? (
                            <button
                              type="button"
                              className="btn sm"
                              disabled={blocked !== null || revoke.isPending}
                              title={blocked ?? undefined}
                              onClick={() => revoke.mutate({ params: { id: invite.id } })}
                            >
                              Revoke
                            </button>
                          ) : null}
                        </td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
            </div>
          )
        }
      </Panel>
    </div>
  )
}
