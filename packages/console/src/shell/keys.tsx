// Keys of every page: Ctrl K, g and a letter, / for the search field, ? for this list. Single keys are off in fields.
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { navigation } from './navigation.ts'

const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable)

export function Keys({ openPalette }: { openPalette: () => void }) {
  const navigate = useNavigate()
  const [isHelpOpen, setHelpOpen] = useState(false)
  const afterG = useRef(0)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        return openPalette()
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target) || document.querySelector('dialog[open]') !== null)
        return undefined
      if (event.key === '?') return setHelpOpen(true)
      if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('[data-search]')
        if (field !== null) {
          event.preventDefault()
          field.focus()
        }
        return undefined
      }
      if (event.key === 'g') {
        afterG.current = event.timeStamp
        return undefined
      }
      const item = event.timeStamp - afterG.current < 1500 ? navigation.find(({ key }) => key === event.key) : undefined
      afterG.current = 0
      if (item !== undefined) void navigate({ to: item.to })
      return undefined
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [navigate, openPalette])
  if (!isHelpOpen) return null
  return (
    <Dialog title="Keys" onClose={() => setHelpOpen(false)}>
      <dl className="keys pad">
        {[
          ['Ctrl K', 'find or do anything'],
          ['/', 'search field'],
          ['.', 'show newer rows'],
          ['[ ]', 'previous, next cluster of a stack'],
          ['Esc', 'close'],
          ...navigation.map(({ key, label }) => [`g ${key}`, label] as const),
        ].map(([key, what]) => (
          <div key={key} className="row">
            <dt>
              <span className="kbd">{key}</span>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
