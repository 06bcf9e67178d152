// What the viewer's own action did; it stays eight seconds or until it is closed.
import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from 'react'
import { Glyph, Icon } from './icon.tsx'

export interface Undo {
  readonly label: string
  readonly run: () => Promise<unknown>
}
interface Toast {
  readonly id: number
  readonly text: string
  readonly undo: Undo | undefined
}
const shownMs = 8_000
type Show = (text: string, undo?: Undo) => void
const Context = createContext<Show>(() => undefined)

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Toast[]>([])
  const nextId = useRef(0)
  const remove = useCallback((id: number) => setToasts((all) => all.filter((toast) => toast.id !== id)), [])
  const show = useCallback(
    (text: string, undo?: Undo) => {
      const id = nextId.current++
      setToasts((all) => [...all.slice(-3), { id, text, undo }])
      setTimeout(() => remove(id), shownMs)
    },
    [remove],
  )
  return (
    <Context value={show}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text, undo }) => (
          <div key={id} className="toast">
            <Glyph state="current" />
            <span className="grow">{text}</span>
            {undo === undefined ? null : (
              <button
                type="button"
                className="btn sm"
                onClick={() => {
                  remove(id)
                  void undo.run()
                }}
              >
                {undo.label}
              </button>
            )}
            <button type="button" className="btn bare sm ic" aria-label="Close" onClick={() => remove(id)}>
              <Icon name="x" size="m" />
            </button>
          </div>
        ))}
      </div>
    </Context>
  )
}

export const useToast = (): Show => useContext(Context)
