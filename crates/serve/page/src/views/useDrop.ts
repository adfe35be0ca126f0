import { useState } from "preact/hooks";

/** Lets a person drop files on an element: its handlers, and whether files are above it. */
export function useDrop(onFiles: ((files: File[]) => void) | null) {
  const [isDropping, setDropping] = useState(false);
  const drop = {
    onDragOver: (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setDropping(onFiles !== null);
    },
    onDragLeave: (event: DragEvent) => {
      const { currentTarget, relatedTarget } = event;
      if (!(relatedTarget instanceof Node && currentTarget instanceof Node && currentTarget.contains(relatedTarget))) setDropping(false);
    },
    onDrop: (event: DragEvent) => {
      setDropping(false);
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      onFiles?.(files);
    },
  };
  return { isDropping, drop };
}
