// Actions on a cluster: pause, rotate its key, remove it. Each says what happens before it does.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useDeed } from '../api/use-call.ts'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { SecretOnce } from '../parts/secret-once.tsx'
import { useToast } from '../parts/toast.tsx'

interface DeedProps {
  readonly agent: Agent
  readonly onClose: () => void
}

export function SetStatus({ agent, onClose }: DeedProps) {
  const isPaused = agent.status !== 'ACTIVE'
  const toast = useToast()
  const deed = useDeed('updateAgent', () => {
    toast(`${agent.name} is ${isPaused ? 'resumed' : 'paused'}`)
    onClose()
  })
  return (
    <Confirm
      title={`${isPaused ? 'Resume' : 'Pause'} ${agent.name}`}
      button={isPaused ? 'Resume' : 'Pause'}
      command={`brokkr agents ${isPaused ? 'resume' : 'pause'} ${shellWord(agent.name)}`}
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: agent.id }, body: { status: isPaused ? 'ACTIVE' : 'INACTIVE' } })}
    >
      <p className="ink-2">
        {isPaused
          ? 'The agent applies changes again, beginning with the newest version of each stack.'
          : 'The agent stays connected and applies no further change. What runs in the cluster stays.'}
      </p>
    </Confirm>
  )
}

export function RotateKey({ agent, onClose }: DeedProps) {
  const [key, setKey] = useState<string | null>(null)
  const deed = useDeed('rotateAgentPak', ({ pak }) => setKey(pak))
  if (key !== null)
    return (
      <Dialog title={`New key of ${agent.name}`} onClose={onClose}>
        <div className="pad">
          <SecretOnce value={key} what="key" />
        </div>
      </Dialog>
    )
  return (
    <Confirm
      title={`Rotate the key of ${agent.name}`}
      button="Rotate"
      command={`brokkr agents rotate ${shellWord(agent.name)}`}
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: agent.id } })}
    >
      <p className="ink-2">The old key stops working at once. The agent needs the new key in its Secret before it connects again.</p>
    </Confirm>
  )
}

export function RemoveCluster({ agent, onClose }: DeedProps) {
  const navigate = useNavigate()
  const toast = useToast()
  const deed = useDeed('deleteAgent', () => {
    toast(`${agent.name} is removed`)
    void navigate({ to: '/' })
  })
  return (
    <Confirm
      title={`Remove ${agent.name}`}
      button="Remove the agent"
      command={`brokkr agents remove ${shellWord(agent.name)} --keep-workloads`}
      typedName={agent.name}
      isRemoval
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: agent.id } })}
    >
      <p className="ink-2">The broker forgets the agent and revokes its key. Nothing is removed from the cluster.</p>
    </Confirm>
  )
}
