// The palette: pages and actions from memory, then stacks and clusters by name. It shows the command that equals the chosen line.
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState } from 'react'
import { useCall } from '../api/use-call.ts'
import { shellWord } from '../parts/command.tsx'
import { Icon } from '../parts/icon.tsx'
import { Name } from '../parts/text.tsx'
import { navigation } from './navigation.ts'
import { toggleTheme } from './theme.ts'

interface Entry {
  readonly id: string
  readonly label: string
  readonly note: string
  readonly icon: string
  readonly command?: string
  readonly run: () => void
}
const searchAfterMs = 150
const shownMax = 8

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const [index, setIndex] = useState(0)
  const dialog = useRef<HTMLDialogElement>(null)
  const listId = useId()
  const entries = useEntries(text, onClose)
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  const active = entries[Math.min(index, entries.length - 1)]
  const move = (by: number) => setIndex((at) => (at + by + entries.length) % Math.max(1, entries.length))
  return (
    <dialog
      ref={dialog}
      className="palette"
      aria-label="Find or do anything"
      onCancel={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) onClose()
      }}
    >
      <div className="palette-field">
        <Icon name="search" />
        <input
          aria-label="Name or verb"
          placeholder="Name or verb, such as: stacks, shop, theme"
          role="combobox"
          aria-expanded="true"
          aria-controls={listId}
          aria-activedescendant={active === undefined ? undefined : `${listId}-${active.id}`}
          autoComplete="off"
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            setIndex(0)
          }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown') move(1)
            else if (event.key === 'ArrowUp') move(-1)
            else if (event.key === 'Enter') active?.run()
            else return
            event.preventDefault()
          }}
        />
        <span className="kbd">Esc</span>
      </div>
      <ul id={listId} role="listbox" aria-label="Results" className="palette-list">
        {entries.map((entry) => (
          <li
            key={entry.id}
            id={`${listId}-${entry.id}`}
            role="option"
            aria-selected={entry === active}
            className={entry === active ? 'on' : ''}
            onPointerMove={() => setIndex(entries.indexOf(entry))}
            onClick={entry.run}
            onKeyDown={undefined}
          >
            <Icon name={entry.icon} />
            <Name text={entry.label} className="grow" />
            <span className="ink-3 f12">{entry.note}</span>
          </li>
        ))}
        {entries.length === 0 ? <li className="ink-3">Nothing has this name</li> : null}
      </ul>
      <div className="palette-foot mono">{active?.command ?? ''}</div>
    </dialog>
  )
}

function useEntries(text: string, onClose: () => void): Entry[] {
  const navigate = useNavigate()
  const search = useSettled(text.trim(), searchAfterMs)
  const isSearched = search.length > 0
  const stacks = useCall('listStacks', { query: { search, limit: shownMax } }, { enabled: isSearched, keepsPrevious: true })
  const fleet = useCall('listFleet', { query: { include: 'agent', limit: 1000 } })
  const needle = text.trim().toLowerCase()
  const go = (run: () => unknown) => () => {
    onClose()
    void run()
  }
  const pages: Entry[] = navigation.map((item) => ({
    id: item.to,
    label: item.label,
    note: `page · g ${item.key}`,
    icon: item.icon,
    run: go(() => navigate({ to: item.to })),
  }))
  const deeds: Entry[] = [
    { id: 'theme', label: 'Switch theme', note: 'action', icon: 'sun', run: go(toggleTheme) },
    {
      id: 'invite',
      label: 'Invite cluster',
      note: 'action',
      icon: 'plus',
      command: 'brokkr agents invite',
      run: go(() => navigate({ to: '/access', search: { tab: 'invites' } })),
    },
  ]
  const named: Entry[] = [
    ...(isSearched ? (stacks.data ?? []) : []).map((stack) => ({
      id: stack.id,
      label: stack.name,
      note: 'stack',
      icon: 'stacks',
      command: `brokkr describe stack ${shellWord(stack.name)}`,
      run: go(() => navigate({ to: '/stacks/$id', params: { id: stack.id } })),
    })),
    ...(fleet.data ?? [])
      .filter(({ name }) => isSearched && name.toLowerCase().includes(needle))
      .slice(0, shownMax)
      .map((agent) => ({
        id: agent.agent_id,
        label: agent.name,
        note: 'cluster',
        icon: 'fleet',
        command: `brokkr describe agent ${shellWord(agent.name)}`,
        run: go(() => navigate({ to: '/clusters/$id', params: { id: agent.agent_id } })),
      })),
  ]
  const fits = ({ label }: Entry) => label.toLowerCase().includes(needle)
  return [...named, ...[...pages, ...deeds].filter(fits)].slice(0, 20)
}

/** The value once it has not changed for a moment. */
function useSettled(value: string, afterMs: number): string {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), afterMs)
    return () => clearTimeout(timer)
  }, [value, afterMs])
  return settled
}
