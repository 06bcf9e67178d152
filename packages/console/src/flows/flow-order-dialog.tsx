// Asks before a flow is rewound, dead letters are sent again, or a message is skipped: what happens, from where, and the equal command.
import type { Flow } from '@brokkr/contract/flows/flow.ts'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useDeed } from '../api/use-call.ts'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'

export type SteeredAction = 'rewind' | 'replay' | 'skip'

const explanations: Readonly<Record<SteeredAction, string>> = {
  rewind: 'The flow reads from there again. Sinks that store positions skip what they have; others get messages twice.',
  replay: 'Stored dead letters pass the transforms again and are written to the sinks.',
  skip: 'The message that blocks the flow is never written. It is counted as dropped and cannot be replayed.',
}

export function FlowOrderDialog({ flow, action, onClose }: { flow: Flow; action: SteeredAction; onClose: () => void }) {
  const [to, setTo] = useState<'earliest' | 'latest' | 'time'>('earliest')
  const [time, setTime] = useState('')
  const blocked = useReadonlyReason()
  const toast = useToast()
  const deed = useDeed('createFlowOrder', () => {
    toast(`${action} of ${flow.name} is ordered`)
    onClose()
  })
  const at = time === '' ? null : toTime(time)
  const position = flow.report?.blocked?.position ?? ''
  const words = {
    rewind: ` --to ${to === 'time' ? shellWord(JSON.stringify({ time: at ?? '…' })) : to}`,
    replay: at === null ? '' : ` --from ${at}`,
    skip: ` --position ${shellWord(position)}`,
  }
  const order = () => {
    const params = { id: flow.id }
    if (action === 'skip') return deed.mutate({ params, body: { action, position } })
    if (action === 'replay') return deed.mutate({ params, body: { action, ...(at === null ? {} : { from: at }) } })
    return deed.mutate({ params, body: { action, to: to === 'time' ? { time: at! } : to } })
  }
  return (
    <Confirm
      title={`${title[action]} ${plainText(flow.name, 80)}`}
      button={`${title[action]} the flow`}
      command={`brokkr flows ${action} ${shellWord(flow.name)}${words[action]} -n ${shellWord(flow.namespace)}`}
      typedName={action === 'skip' ? flow.name : undefined}
      isRemoval={action === 'skip'}
      isBusy={deed.isPending}
      error={deed.error}
      blockedBecause={blocked ?? (action === 'rewind' && to === 'time' && at === null ? 'say from which time' : null)}
      onClose={onClose}
      onConfirm={order}
    >
      <p className="ink-2">{explanations[action]}</p>
      {action === 'rewind' ? (
        <label className="field">
          <span>To</span>
          <select className="select" value={to} onChange={(event) => setTo(event.target.value as 'earliest')}>
            <option value="earliest">the oldest message of the source</option>
            <option value="latest">the newest message of the source</option>
            <option value="time">a time</option>
          </select>
        </label>
      ) : null}
      {action === 'replay' || (action === 'rewind' && to === 'time') ? (
        <label className="field">
          <span>{action === 'replay' ? 'Only those that failed after, empty for all' : 'Time'}</span>
          <input className="input" type="datetime-local" value={time} onChange={(event) => setTime(event.target.value)} />
        </label>
      ) : null}
      {action === 'skip' ? <p className="mono f12">{plainText(position, 300)}</p> : null}
    </Confirm>
  )
}

const title: Readonly<Record<SteeredAction, string>> = { rewind: 'Rewind', replay: 'Replay dead letters of', skip: 'Skip a message of' }

const toTime = (local: string): string | null => (Number.isNaN(Date.parse(local)) ? null : new Date(local).toISOString())
