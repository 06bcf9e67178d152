// The command that equals an action, with a copy button.
import { useEffect, useState } from 'react'
import { Icon } from './icon.tsx'

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return undefined
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [isCopied])
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
  }
  return (
    <button type="button" className="btn bare sm ic" aria-label={isCopied ? 'Copied' : label} title={label} onClick={() => void copy()}>
      <Icon name={isCopied ? 'check' : 'copy'} size="m" />
    </button>
  )
}

export function Command({ text }: { text: string }) {
  return (
    <div className="cmd">
      <code className="grow cmd-text">{text}</code>
      <CopyButton text={text} label="Copy the command" />
    </div>
  )
}

/** Quotes a word for a shell, only if it needs quotes. */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
